// Every structure of a span, on one page.
//
//   slice   64 KiB of a region. A table holds one descriptor (Span) per slice, which arithmetic
//           finds from any address.
//   span    a run of slices that serves one size class, or one large block. Its descriptor is that
//           of its first slice. In a span of a class, later slices say how far back the first is.
//   block   what malloc returns: start + i * size. A free block holds the encoded link to the next
//           (span/free_list.h).
//   page    here always 4 KiB.
//   unit    the smallest part that is carved (put on a free list) at once: the blocks that start in
//           a page, or one block if it is as large as a page. `uncarved` has one bit for each unit
//           that was never carved, or was given back to the system.
//
// The invariant of every span of a class:
//   live + local free + remote free + uncarved = capacity
// where local free = the span's blocks on *list. While a span is cold (or of a medium class), its
// owner knows freed() = local free + uncarved. While a span of a small class is hot, its free
// blocks are in the heap's bin and are not counted; when the bin is empty, their number is known
// again: zero.
//
// Only the owner writes line 0, so a local free never touches the line that remote frees write
// (line 1).
// Thread-safety: the "Guard" notes below.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/free_count.h"
#include "sizes/size_class.h"
#include "span/free_list.h"
#include "span/remote_list.h"
#include "sync/inside.h"

namespace near {

class Heap;
class Region;

inline constexpr size_t kPageShift = 12;
inline constexpr size_t kPageSize = size_t{1} << kPageShift;
inline constexpr size_t kChunkShift = 21;
inline constexpr size_t kChunkSize = size_t{1} << kChunkShift;  // 2 MiB: a huge page
inline constexpr unsigned kChunkSlices = kChunkSize / kSliceSize;

enum class SpanKind : uint8_t { none, blocks, inside, large };

// What the profiler has in a span, which then is of kind `large`: nothing, its one large block, or
// a slice of cells of the span's size class for small and medium blocks, whose free ones are in
// `local`.
enum class Sampled : uint8_t { none, large, blocks };

// A block that is uncarved though the list of its cold span still leads through it, because the
// owner's thread may have read it as the head (purge_behind_first, span/span.h). Its link is here:
// the page that held it was given back.
struct Ghost {
  uint32_t block;  // its offset in the span, plus 1; 0: there is none
  uint32_t next;   // the same of the block behind it; 0: none
};

struct alignas(128) Span {
  // Line 0. Guard: the owner's thread, or the lock of an owner without a thread.
  Atomic<Heap*> owner;  // the heap whose thread frees locally; null unless kind == blocks
  FreeList* list;       // where a local free pushes: the heap's bin while hot, &local while cold
  FreeList local;       // the free blocks of a cold span
  FreeCount frees;      // freed(), as a countdown to the next event
  // of the block size: recognises the start of a block on the fast path of free. Or 0: then no
  // block takes that path
  uint32_t reciprocal;
  // a copy of it: two memory operands cost the fast path one instruction less than one load
  uint32_t reciprocal_again;
  SpanKind kind;  // Guard: the node's lock, and the owner
  uint8_t size_class;
  bool reusable;  // in the owner's lists of spans to allocate from. Guard: the owner's lock
  bool sparse;    // reusable, and at least half free. Guard: the owner's lock
  union {
    uint16_t back;  // kind == inside: slices back to the span's first one
    // kind == blocks: not 0 if the count of `frees` ends at a free whose block is to be marked
    // (heap/marks.h); then 1 + the frees from there to the event. Guard: the owner's lock
    uint16_t after_mark;
  };
  // hot, of a medium class, and allowed to stay hot when all blocks are free. Guard: the owner
  bool idle;
  // Guard: the profiler's lock; constant while a sampled block of the span is live
  Sampled sampled;
  uint32_t uncarved;  // bit i: unit i is uncarved
  Span* next;         // in one of the owner's lists. Guard: the owner's lock
  Span* prev;

  // Line 1: any thread.
  alignas(64) RemoteList<Block> remote;  // open while kind == blocks
  Span* pending_next;                    // in the owner's inbox
  union {
    // blocks: freed() at the last search for free pages. Guard from here to purged_pages, except
    // `node`: the owner's lock
    uint16_t looked_at;
    uint16_t watched;  // large: node/density.h. Guard: the thread with the run
  };
  uint16_t filed_when;  // the heap's time when it became reusable
  bool swept : 1;       // searched for free pages since the last event: in the owner's second list
  bool spent : 1;       // cold and not reusable: in the owner's list of such spans
  uint8_t tried : 6;    // the profiler's run in which all free blocks had their trials; 0: in none
  uint8_t node;         // the region's; constant while kind != none
  uint16_t purged_pages;  // pages given back and not carved since
  // of every slice, not only the span's first. Bit i: page i of the slice may have been written
  // since the system provided it. A hint for carving; it outlives the span. Cleared by the region
  // when the slice is given back to the system
  uint16_t touched;
  // freed() when the owner's frees were last counted. Guard: the owner's lock. Sampled::blocks: the
  // number of live blocks. Guard: the profiler's lock
  uint16_t counted;
  uint32_t slices;  // length of the span; constant while kind == blocks; large blocks resize
  char* start;      // address of the first block; a large one may begin behind its slice's start
  Region* region;   // constant
  union {
    size_t asked;  // large: bytes asked for; Sampled::blocks: bytes of cells ever handed out
    Ghost ghost;   // blocks. Guard: the owner's lock
  };

#if NEAR_CHECK
  // One bit for each block that the program holds, which finds every double free.
  Atomic<uint64_t> held[kSliceSize / kBlockAlign / 64];
#endif

  const SizeClass& shape() const { return shape_of(size_class, slices); }
  // Whether frees by the owner's thread take the fast path, on which blocks go back to their span
  // (heap/spare_blocks.h). The owner.
  bool frees_are_fast() const { return reciprocal != 0; }
  // A child of a fork that another thread makes in between takes the slow path.
  void set_fast_frees(bool on) {
    if (!on) reciprocal_again = 0;
    order_for_handlers();
    reciprocal = on ? kSizeClasses[size_class].reciprocal : 0;
    order_for_handlers();
    if (on) reciprocal_again = kSizeClasses[size_class].reciprocal;
  }
  bool is_short() const { return slices != kSizeClasses[size_class].slices; }
  size_t bytes() const { return size_t{slices} << kSliceShift; }
  // Bytes from the first slice to the first block.
  size_t offset() const { return reinterpret_cast<uintptr_t>(start) % kSliceSize; }
};

// A number that tells spans apart, for tables of spans: that of the descriptor by its address.
inline uintptr_t number_of(const Span& span) {
  return reinterpret_cast<uintptr_t>(&span) / alignof(Span);
}

// The classes with blocks smaller than a page; their spans are one slice long.
inline constexpr unsigned kPagedClasses = class_of(kPageSize);
static_assert(kSizeClasses[kPagedClasses].size == kPageSize);

// True if a span with live blocks can have free pages.
inline bool is_purgeable(const Span& span) { return span.size_class < kPagedClasses; }

inline bool is_sparse(const Span& span, uint32_t freed) {
  return is_purgeable(span) && freed * 2 >= span.shape().capacity;
}

// True if the unit of carving is one block, not one page.
constexpr bool carves_blocks(const SizeClass& shape) { return shape.size >= kPageSize; }

static_assert(kSliceSize / kBlockAlign <= FreeCount::kMaxRemaining - FreeCount::kMaxAwaited);
static_assert(kLinkReach == kChunkSize);  // a span of a class lies in one chunk
static_assert([] {  // so there is a bit of `uncarved` for each block of a page and more
  for (const SizeClass& shape : kSizeClasses) {
    if (shape.size >= kPageSize && shape.capacity >= 32) return false;
    if (shape.size < kPageSize && shape.slices != 1) return false;
  }
  return true;
}());
static_assert(kClasses <= UINT8_MAX);  // RemoteList keeps one more, and the node, in a byte each
static_assert(kModel || (offsetof(Span, remote) == 64 && (kCheckBuild || sizeof(Span) == 128)));

// The blocks of a span by number, in units of kBlockAlign.
struct SpanBlocks {
  char* start;
  Block* at(uint32_t index) const { return reinterpret_cast<Block*>(start + index * kBlockAlign); }
  uint32_t index_of(const Block* block) const {
    return static_cast<uint32_t>(reinterpret_cast<const char*>(block) - start) / kBlockAlign;
  }
};

}  // namespace near
