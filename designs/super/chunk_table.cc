#include "designs/super/chunk_table.h"

namespace near::design::super {
namespace {

// At most 2^21 chunks, of the 2^24 that an entry can number; at least 32.
constexpr size_t kMostMemory = size_t{1} << 42;
constexpr size_t kLeastMemory = 64 * kMiB;
static_assert(kMostMemory / kChunk <= size_t{1} << 24);

}  // namespace

constinit design::Arena arena;
constinit design::Room room{arena, kChunk};

bool ChunkTable::start() {
  if (arena.size() == 0 && !arena.reserve(kMostMemory, kLeastMemory, kChunk, kChunk)) return false;
  if (arena.taken() != 0) return true;
  return arena.take(align_up(arena.size() / kChunk * sizeof(uint32_t), kChunk)) != nullptr;
}

}  // namespace near::design::super
