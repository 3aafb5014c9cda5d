// The check of a region's invariants.

#include "base/bits.h"
#include "node/region.h"
#include "platform/message.h"

namespace near {
namespace {

size_t expect(bool holds, const char* what, unsigned node, uint32_t index) {
  if (holds) return 0;
  message("region of node %u, chunk %u: %s", node, index, what);
  return 1;
}

}  // namespace

// Checks that a mapped chunk is in the right lists.
size_t Region::check_lists(uint32_t index) const {
  const Chunk& chunk = chunks_[index];
  const auto want = [&](bool holds, const char* what) { return expect(holds, what, node_, index); };
  size_t wrong = want(chunk.bucket == longest_run(chunk.free), "wrong bucket");
  wrong += want(chunk.in_dirty == (chunk.dirty != 0), "in the wrong set of lists");
  wrong +=
      want(fitting_[chunk.in_dirty][chunk.bucket].has(chunks_, index), "not linked in its list");
  wrong += want((chunk.waiting == Waiting::no) == (chunk.dirty == 0),
                "waits to be purged, or does not, without reason");
  if (chunk.waiting == Waiting::no) return wrong;
  const AgeList& list = chunk.waiting == Waiting::stuck ? stuck_ : waiting_;
  wrong += want(list.has(chunks_, index), "not in the list of its age");
  if (chunk.waiting == Waiting::whole)
    wrong += want(chunk.is_whole() && whole_.has(chunks_, index), "not in the list of whole ones");
  return wrong;
}

size_t Region::check_chunk(uint32_t index) const {
  const Chunk& chunk = chunks_[index];
  const auto want = [&](bool holds, const char* what) { return expect(holds, what, node_, index); };
  size_t wrong =
      want((chunk.dirty & ~(chunk.free | chunk.growing)) == 0, "a dirty slice is not free");
  wrong += want((chunk.free & chunk.away) == 0 && ((chunk.free | chunk.away) & chunk.growing) == 0,
                "a slice is free and withdrawn");
  if (chunk.presence == Presence::absent) {
    wrong += want((chunk.free | chunk.growing) == kWholeChunk && chunk.dirty == 0,
                  "absent, and not all of it is free");
    wrong += want(!chunk.is_whole() || absent_.has(chunks_, index), "absent, and in no list");
  }
  return is_mapped(index) ? wrong + check_lists(index) : wrong;
}

size_t Region::check() const {
  size_t wrong = 0;
  size_t free = 0;
  size_t dirty = 0;
  size_t stuck = 0;
  uint32_t counts[4] = {};
  uint32_t away = 0;
  int32_t mappings = 0;
  for (uint32_t index = 0; index < end_; index++) {
    const Chunk& chunk = chunks_[index];
    if (chunk.presence == Presence::other) continue;
    wrong += check_chunk(index);
    counts[static_cast<unsigned>(chunk.presence)]++;
    mappings += begins_mapping(index) ? 1 : 0;
    away += chunk.away != 0 ? 1 : 0;
    const auto dirty_here = size_t{count_bits(chunk.dirty)};
    dirty += dirty_here;
    if (chunk.waiting == Waiting::stuck) stuck += dirty_here;
    if (is_mapped(index)) free += size_t{count_bits(chunk.free)};
  }
  const auto want = [&](bool holds, const char* what) {
    wrong += expect(holds, what, node_, kNoChunk);
  };
  const uint32_t mapped = counts[static_cast<unsigned>(Presence::mapped)];
  want(mapped == mapped_, "the count of mapped chunks is wrong");
  want(mapped + counts[static_cast<unsigned>(Presence::absent)] == owned_,
       "the count of its chunks is wrong");
  want(away == away_, "the count of chunks with slices away is wrong");
  want(mappings == mappings_, "the count of mappings is wrong");
  want(free == free_slices_, "the count of free slices is wrong");
  want(dirty == dirty_slices_, "the count of dirty slices is wrong");
  want(stuck == stuck_slices_, "the count of stuck slices is wrong");
  want(runs_.check(), "a run in the tree is not the sum of its halves");
  return wrong;
}

}  // namespace near
