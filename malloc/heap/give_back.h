// Gives blocks that wait in magazines and depots back to their spans.
// Thread-safety: any thread without locks; what one thread does here another does not do meanwhile.
#pragma once

#include "heap/registry.h"

namespace near {

// Empties the magazines of heaps of `node` whose threads took no slow path since the last round,
// asks the other heaps to give back what they do not use, and takes from the depot what no thread
// asked for since the last round. `everything`: empties all magazines and the depot, except those
// of a thread that works on its magazines just now. Returns true if blocks still wait.
bool give_back_magazines(bool everything, unsigned node = kEveryNode);

// Called in the child of a fork: ends what a thread that does not exist there was doing.
void forget_giving_back();

}  // namespace near
