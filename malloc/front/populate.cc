#include "front/populate.h"

#include <cstddef>

#include "front/large.h"
#include "front/thread.h"
#include "node/memory.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {
namespace {

// The link to the block before, at the start of a populated block. A block is a whole chunk, so
// that it gets a huge page.
struct Populated {
  Populated* before;
};

// Takes and populates blocks, then frees all of them: the node keeps their memory.
bool populate(unsigned node, size_t bytes) {
  Populated* last = nullptr;
  bool good = true;
  for (size_t done = 0; good && done < bytes; done += kChunkSize) {
    void* block = allocate_large_at(node, kChunkSize, kChunkSize, true);
    good = block != nullptr && os::populate(block, kChunkSize);
    if (good) {
      static_cast<Populated*>(block)->before = last;
      last = static_cast<Populated*>(block);
    } else if (block != nullptr) {
      release_large(*span_of(block));
    }
  }
  while (last != nullptr) {
    Populated* before = last->before;
    release_large(*span_of(last));
    last = before;
  }
  return good;
}

}  // namespace

bool obey_populate_option() {
  start_library();
  const size_t bytes = static_cast<size_t>(option(Option::populate_mib)) * kMiB;
  bool good = true;
  for (unsigned n = 0; n < topology.count; n++) {
    nodes[n].keep(bytes);
    good = populate(n, bytes) && good;
  }
  return good;
}

}  // namespace near
