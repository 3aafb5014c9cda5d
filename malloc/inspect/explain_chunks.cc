// The resident pages of chunks: which are of blocks, live or free, and which of no block.
//
// The heap's lock keeps a span in place while its lists are read. Its owner may push and pop
// meanwhile, without the lock; so a walk follows only links that lead to a block of the span
// (ListWalk), and one that a change cut off is repeated.
#include "heap/registry.h"
#include "inspect/explain.h"
#include "node/memory.h"
#include "platform/clock.h"
#include "platform/page_map.h"

namespace near {
namespace {

// One bit for each block of a span.
class BlockSet {
 public:
  void add(uint32_t index) { words_[index / 64] |= uint64_t{1} << index % 64; }
  bool has(uint32_t index) const { return (words_[index / 64] >> index % 64 & 1) != 0; }

 private:
  uint64_t words_[kSliceSize / kBlockAlign / 64] = {};
};
static_assert([] {
  for (const SizeClass& shape : kSizeClasses) {
    if (shape.capacity > kSliceSize / kBlockAlign) return false;
  }
  return true;
}());

// Adds the blocks of a list. False if the walk was cut off.
bool add_list(const Span& span, const FreeList& list, BlockSet& blocks) {
  ListWalk walk(span, list);
  while (const Block* block = walk.next()) {
    const auto offset = static_cast<size_t>(reinterpret_cast<const char*>(block) - span.start);
    blocks.add(static_cast<uint32_t>(offset / span.shape().size));
  }
  return !walk.damage().present();
}

// The blocks in the owner's list and in the remote one. The caller holds the owner's lock.
BlockSet free_blocks(const Span& span) {
  constexpr int kTries = 4;
  for (int tries = 1;; tries++) {
    BlockSet blocks;
    const bool whole = add_list(span, *span.list, blocks);
    FreeList remote;
    remote.clear(span.start);
    if (const Block* head = span.remote.peek(SpanBlocks{span.start})) remote.set(head->address());
    if ((add_list(span, remote, blocks) && whole) || tries == kTries) return blocks;
  }
}

class Census {
 public:
  Census(PageMap& pages, Explanation& out) : pages_(pages), out_(out), now_(coarse_now_ms()) {}

  // Called for the mapped chunks of a region in the order of their addresses.
  void look_at(const Region& region, uint32_t index, const Chunk& chunk) {
    const auto start = reinterpret_cast<uintptr_t>(region.chunk_start(index));
    if (chunk.dirty != 0) {
      out_.longest_wait_ms = max_of(out_.longest_wait_ms, now_ - min_of(now_, chunk.stamp));
    }
    for (unsigned slice = 0; slice < kChunkSlices;) {
      const uintptr_t at = start + slice * kSliceSize;
      const uint32_t bit = uint32_t{1} << slice;
      uint32_t slices = 1;
      if (((chunk.free | chunk.away | chunk.growing) & bit) != 0) {
        const bool dirty = ((chunk.dirty | chunk.away) & bit) != 0;
        add(dirty ? Part::dirty : Part::clean, at, at + kSliceSize);
      } else if (at >= large_start_ && at < large_end_) {
        add_large(at);
      } else {
        slices = look_at_span(region.span(size_t{index} * kChunkSlices + slice), at);
      }
      slice += slices;
    }
  }

 private:
  void add(Part part, uintptr_t start, uintptr_t end) {
    out_.of(part) += pages_.resident(start, end);
  }

  // A slice of the large block that was found last.
  void add_large(uintptr_t start) {
    pages_.for_each_resident(start, start + kSliceSize, [&](PageRange range) {
      const uintptr_t used = min_of(max_of(large_used_, range.start), range.end);
      out_.of(Part::large_blocks) += used - range.start;
      out_.of(Part::large_ends) += range.end - used;
    });
  }

  // Returns the slices that were counted, from `start` on.
  uint32_t look_at_span(const Span& span, uintptr_t start) {
    if (span.kind == SpanKind::large) {
      large_start_ = start;
      large_end_ = start + span.bytes();
      large_used_ = start + span.offset() + span.asked;
      add_large(start);
      return 1;
    }
    if (const uint32_t slices = look_at_blocks(span, start)) return slices;
    add(Part::cached, start, start + kSliceSize);
    return 1;
  }

  // Returns the span's slices; 0 if no heap owns it (any more): it is empty.
  uint32_t look_at_blocks(const Span& span, uintptr_t start) {
    Heap* owner = span.owner.load(kRelaxed);  // relaxed: heaps are type-stable; looked at again
    if (span.kind != SpanKind::blocks || owner == nullptr) return 0;
    const LockGuard guard(owner->lock);
    // relaxed: under its lock it gains and loses no span
    if (span.kind != SpanKind::blocks || span.owner.load(kRelaxed) != owner) return 0;
    const BlockSet free = free_blocks(span);
    pages_.for_each_resident(start, start + span.bytes(),
                             [&](PageRange range) { add_blocks(span, free, range); });
    return span.slices;
  }

  // Divides a resident range of a span among its blocks.
  void add_blocks(const Span& span, const BlockSet& free, PageRange range) {
    const SizeClass& shape = span.shape();
    const auto start = reinterpret_cast<uintptr_t>(span.start);
    const size_t end_of_blocks = size_t{shape.capacity} * shape.size;
    const size_t end = range.end - start;
    size_t at = range.start - start;
    while (at < min_of(end, end_of_blocks)) {
      const auto block = static_cast<uint32_t>(at / shape.size);
      const size_t next = min_of(size_t{block + 1} * shape.size, end);
      add_block(span, block, free.has(block), next - at);
      at = next;
    }
    out_.of(Part::span_ends) += end - at;
  }

  void add_block(const Span& span, uint32_t block, bool is_free, size_t bytes) {
    const SizeClass& shape = span.shape();
    const size_t unit = carves_blocks(shape) ? block : size_t{block} * shape.size >> kPageShift;
    Explanation::OfClass& sums = out_.classes[span.size_class];
    if ((span.uncarved >> unit & 1) != 0) {
      sums.unused += bytes;
      out_.of(Part::unused) += bytes;
    } else {
      (is_free ? sums.free : sums.live) += bytes;
      out_.of(is_free ? Part::free_blocks : Part::small_blocks) += bytes;
    }
  }

  PageMap& pages_;
  Explanation& out_;
  const uint64_t now_;
  uintptr_t large_start_ = 0;
  uintptr_t large_end_ = 0;
  uintptr_t large_used_ = 0;  // the end of the bytes that it was asked for
};

// Blocks in magazines are live for their spans. They were used, so they are resident.
void move_magazines(Explanation& out) {
  uint64_t bytes = 0;
  uint64_t of_node[kMaxNodes] = {};
  for (uint32_t id = 0; id < heap_count(); id++) {
    if (const Magazines* some = heap_by_id(id)->magazines()) some->add_bytes(of_node);
  }
  for (unsigned n = 0; n < topology.count; n++) bytes += of_node[n] + depots[n].bytes();
  out.of(Part::magazines) = min_of(bytes, out.of(Part::small_blocks));
  out.of(Part::small_blocks) -= out.of(Part::magazines);
}

}  // namespace

void measure_chunks(PageMap& pages, Explanation& out) {
  for (unsigned n = 0; n < topology.count; n++) {
    Census census(pages, out);
    nodes[n].for_each_mapped([&](const Region& region, uint32_t index, const Chunk& chunk) {
      census.look_at(region, index, chunk);
    });
  }
  move_magazines(out);
}

}  // namespace near
