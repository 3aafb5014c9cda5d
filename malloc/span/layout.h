// Every structure of a span, on one page.
//
//   slice   64 KiB of a region. Descriptor: one Span per slice in a table, found by arithmetic from
//           any address.
//   span    a run of slices that serves one size class, or one large block. The descriptor of its
//           first slice is the span's; a slice inside a span of a class says how far back that is.
//   block   what malloc returns: start + i * size. A free block holds the link to the next, encoded
//           (span/free_list.h).
//   page    here always 4 KiB.
//   unit    the least that is carved (put on a free list) at once: the blocks that start in a page,
//           or one block if it is as large as a page. `uncarved` has one bit for each unit that was
//           never carved, or was given back to the system.
//
// The invariant of every span of a class:
//   live + local free + remote free + uncarved = capacity
// where local free = blocks on *list that belong to it. While a span is cold (or of a medium class)
// its owner knows freed() = local free + uncarved. While it is hot its free blocks hang in the
// heap's bin and nobody counts: when the bin runs dry the number is known again, it is zero.
//
// Line 0 is written by the owner alone, so a local free never meets a line that remote frees write
// (line 1).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/free_count.h"
#include "sizes/size_class.h"
#include "span/free_list.h"
#include "span/remote_list.h"

namespace near {

class Heap;
class Region;

inline constexpr size_t kPageShift = 12;
inline constexpr size_t kPageSize = size_t{1} << kPageShift;
inline constexpr size_t kChunkShift = 21;
inline constexpr size_t kChunkSize = size_t{1} << kChunkShift;  // 2 MiB: a huge page
inline constexpr unsigned kChunkSlices = kChunkSize / kSliceSize;

enum class SpanKind : uint8_t { none, blocks, inside, large };

struct alignas(128) Span {
  // Line 0. Guard: the owner's thread, or whoever holds a threadless owner's lock.
  Atomic<Heap*> owner;  // whose thread frees locally; null unless kind == blocks
  FreeList* list;       // where a local free pushes: the heap's bin while hot, &local while cold
  FreeList local;       // the free blocks of a cold span
  FreeCount frees;      // freed(), as a countdown to the next event
  uint32_t reciprocal;  // of the block size, to recognise the start of a block
  // the same: two memory operands are an instruction less on the fast path than one load
  uint32_t reciprocal_again;
  SpanKind kind;  // Guard: the node's lock, and the owner
  uint8_t size_class;
  bool reusable;  // in a list of the owner's spans to allocate from. Guard: the owner's lock
  bool sparse;    // reusable, and half free or more. Guard: the owner's lock
  uint16_t back;  // kind == inside: slices back to the head
  // hot, of a medium class, and allowed to stay so with all blocks free. Guard: the owner
  bool idle;
  uint32_t uncarved;  // bit i: unit i is uncarved
  Span* next;         // in a list of the owner. Guard: the owner's lock
  Span* prev;

  // Line 1: any thread.
  alignas(64) RemoteList<Block> remote;  // open while kind == blocks
  Span* pending_next;                    // in the owner's inbox
  // freed() when its free pages were looked for last. Guard of these but `node`: the owner's lock
  uint16_t looked_at;
  uint16_t filed_when;  // the heap's time when it became reusable
  bool swept;    // its free pages were looked for since the last event: in the owner's second list
  uint8_t node;  // the region's; constant while kind != none
  uint16_t purged_pages;  // given back and not carved since
  // bit i: page i of the first slice was written since the system gave it. Outlives the span: a
  // hint for carving, kept as long as the memory is dirty
  uint16_t touched;
  uint16_t counted;  // freed() when the owner's frees were counted last. Guard: the owner's lock
  uint32_t slices;   // length of the span; constant while kind != none, but for a large block's
  char* start;       // address of the first block; constant while kind != none
  Region* region;    // constant
  size_t asked;      // large: bytes asked for

#if NEAR_CHECK
  // One bit for each block that the program holds: finds every double free.
  Atomic<uint64_t> held[kSliceSize / kBlockAlign / 64];
#endif

  const SizeClass& shape() const { return kSizeClasses[size_class]; }
  size_t bytes() const { return size_t{slices} << kSliceShift; }
};

// True if pages of a span with live blocks can be free: its blocks are smaller than a page, and it
// is one slice long.
inline bool is_purgeable(const Span& span) { return span.shape().size < kPageSize; }

inline bool is_sparse(const Span& span, uint32_t freed) {
  return is_purgeable(span) && freed * 2 >= span.shape().capacity;
}

// True if the unit of carving is one block, not one page.
constexpr bool carves_blocks(const SizeClass& shape) { return shape.size >= kPageSize; }

static_assert(kSliceSize / kBlockAlign <= FreeCount::kMaxRemaining - FreeCount::kMaxAwaited);
static_assert(kLinkReach == kChunkSize);  // a span of a class lies in one chunk
static_assert(kClasses <= UINT8_MAX);     // RemoteList keeps one more, and the node, in a byte each
static_assert(offsetof(Span, remote) == 64 && (kCheckBuild || sizeof(Span) == 128));

// The blocks of a span by number, in units of kBlockAlign.
struct SpanBlocks {
  char* start;
  Block* at(uint32_t index) const { return reinterpret_cast<Block*>(start + index * kBlockAlign); }
  uint32_t index_of(const Block* block) const {
    return static_cast<uint32_t>(reinterpret_cast<const char*>(block) - start) / kBlockAlign;
  }
};

}  // namespace near
