// The secrets of the process: the key of links, and where memory lies.
//
// Each is SipHash-2-4 of its name under a key of 16 random bytes. So a program that gives away some
// of them, by a leaked link or address, gives away neither another one nor the key, and nothing of
// what other code makes from the kernel's random bytes. docs/decisions/0025-keys-and-places.md
// Thread-safety: `draw_key` is called once, before any thread asks for a secret; then any thread.
#pragma once

#include <cstdint>

namespace near {

enum class Secret : uint64_t { key_of_links, heap_place, head_place, first_slice, sampling };

// Draws the key: from getrandom, or from the bytes that the kernel gives a process at exec
// (AT_RANDOM) if the system refuses the call or has no random bytes yet.
void draw_key();

// The secret of this name and number. The same at each call, and in the children of a fork.
uint64_t secret(Secret name, uint64_t number = 0);

}  // namespace near
