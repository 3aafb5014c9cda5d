#include "span/span.h"

#include <bit>

#include "base/assert.h"
#include "base/bits.h"
#include "platform/os.h"

namespace near {

namespace {

// The most to carve at once where that costs no page fault: a block that is linked now should still
// be in a near cache when it is handed out.
constexpr size_t kCarveBlocks = 64;
constexpr size_t kCarvePages = 4;
constexpr uint32_t kCarveLarge = 16;  // blocks as large as a page, or larger
constexpr uint32_t kPages = kSliceSize >> kPageShift;

// The blocks of the units from `first` up to (not including) `last`.
struct Blocks {
  uint32_t begin;
  uint32_t end;

  constexpr Blocks(const SizeClass& shape, uint32_t first, uint32_t last)
      : begin(first_block_of(shape, first)), end(first_block_of(shape, last)) {}
  constexpr uint32_t count() const { return end - begin; }

 private:
  static constexpr uint32_t first_block_of(const SizeClass& shape, uint32_t unit) {
    const size_t block =
        carves_blocks(shape) ? unit : div_up(size_t{unit} << kPageShift, shape.size);
    return static_cast<uint32_t>(min_of(block, shape.capacity));
  }
};

// All pages of a span in which a block starts; in some classes none starts in the last page.
constexpr uint32_t all_pages(const SizeClass& shape) {
  uint32_t units = 0;
  for (uint32_t unit = 0; unit < kPages; unit++) {
    if (Blocks(shape, unit, unit + 1).count() > 0) units |= uint32_t{1} << unit;
  }
  return units;
}

// For the classes whose unit is a page; their spans have one length.
constexpr auto kAllPages = [] {
  std::array<uint32_t, kClasses> pages{};
  for (unsigned c = 0; c < kClasses; c++) pages[c] = all_pages(kSizeClasses[c]);
  return pages;
}();

uint32_t all_units(const Span& span) {
  const SizeClass& shape = span.shape();
  return carves_blocks(shape) ? bit_run(0, shape.capacity) : kAllPages[span.size_class];
}

}  // namespace

void form_span(Span& span, unsigned size_class) {
  span.size_class = static_cast<uint8_t>(size_class);
  const SizeClass& shape = span.shape();
  span.reciprocal = span.reciprocal_again = shape.reciprocal;
  span.local.clear(span.start);
  span.reusable = false;
  span.sparse = false;
  span.idle = span.swept = span.spent = false;
  span.purged_pages = 0;
  span.tried = 0;
  span.ghost = {};
  span.uncarved = all_units(span);
  for (uint32_t i = 1; i < shape.slices; i++) {
    Span& inside = (&span)[i];
    inside.kind = SpanKind::inside;
    inside.back = static_cast<uint16_t>(i);
  }
  span.kind = SpanKind::blocks;
}

namespace {

// True if the page at this offset in the span may have been written.
NEAR_INLINE bool is_touched(const Span& span, size_t offset) {
  const uint32_t pages = (&span)[offset >> kSliceShift].touched;
  return (pages >> (offset >> kPageShift) % kPages & 1) != 0;
}

// The bytes from `begin` up to `end` will be written.
void mark_touched(Span& span, size_t begin, size_t end) {
  const size_t last = (end - 1) >> kPageShift;
  for (size_t page = begin >> kPageShift; page <= last;) {
    const auto first = static_cast<unsigned>(page % kPages);
    const auto count = static_cast<unsigned>(min_of(kPages - first, last - page + 1));
    Span& slice = (&span)[page / kPages];
    slice.touched = static_cast<uint16_t>(slice.touched | bit_run(first, count));
    page += count;
  }
}

// How many units to carve from number `unit` on: one, and as many behind it as were touched before.
// The page on which a block starts counts, because its link is there.
uint32_t units_to_carve(const Span& span, uint32_t unit) {
  const SizeClass& shape = span.shape();
  const auto run = static_cast<uint32_t>(std::countr_one(span.uncarved >> unit));
  if (!carves_blocks(shape)) {
    const auto touched =
        static_cast<uint32_t>(std::countr_one(uint32_t{span.touched} >> unit >> 1));
    const size_t most = max_of(kCarveBlocks * shape.size >> kPageShift, kCarvePages);
    return static_cast<uint32_t>(min_of(min_of(run, touched + 1), most));
  }
  const auto most = static_cast<uint32_t>(min_of(run, kCarveLarge));
  size_t offset = size_t{unit} * shape.size;
  uint32_t units = 1;
  while (units < most && is_touched(span, offset += shape.size)) units++;
  return units;
}

}  // namespace

void carve(Span& span, FreeList& list) {
  NEAR_ASSERT(span.uncarved != 0);
  const SizeClass& shape = span.shape();
  const size_t size = shape.size;
  const auto unit = static_cast<uint32_t>(std::countr_zero(span.uncarved));
  const uint32_t units = units_to_carve(span, unit);
  span.uncarved &= ~bit_run(unit, units);
  const Blocks blocks(shape, unit, unit + units);
  mark_touched(span, blocks.begin * size, Blocks(shape, unit, unit + 1).end * size);
  char* const first = span.start + blocks.begin * size;
  char* const last = span.start + (blocks.end - 1) * size;
  for (char* block = first; block != last; block += size) {
    reinterpret_cast<Block*>(block)->link_to(reinterpret_cast<Block*>(block + size));
  }
  list.splice(reinterpret_cast<Block*>(first), reinterpret_cast<Block*>(last));
}

const char* describe(Flaw flaw) {
  switch (flaw) {
    case Flaw::none:
      break;
    case Flaw::overwritten:
      return "the link in a free block was overwritten";
    case Flaw::stray:
      return "the link in a free block leads to no block of its span";
    case Flaw::ring:
      return "a block is in the free list twice";
  }
  return "nothing is wrong";
}

Block* ListWalk::end(Flaw flaw, uintptr_t block) {
  damage_ = {flaw, reinterpret_cast<const void*>(block)};
  at_ = FreeList::kNoSpan;
  return nullptr;
}

namespace {

// How many free blocks touch each page of a span that has at most so many pages.
template <uint32_t most_pages>
struct PageUse {
  uint16_t free[most_pages] = {};

  void add(size_t offset, uint32_t size) {
    const size_t last = (offset + size - 1) >> kPageShift;
    for (size_t page = offset >> kPageShift; page <= last; page++) free[page]++;
  }
};

template <uint32_t most_pages>
void add_uncarved(PageUse<most_pages>& use, const Span& span) {
  const SizeClass& shape = span.shape();
  for (uint32_t units = span.uncarved; units != 0; units &= units - 1) {
    const auto unit = static_cast<uint32_t>(std::countr_zero(units));
    const Blocks blocks(shape, unit, unit + 1);
    for (size_t i = blocks.begin; i < blocks.end; i++) use.add(i * shape.size, shape.size);
  }
}

size_t offset_of(const Span& span, const Block* block) {
  return static_cast<size_t>(reinterpret_cast<const char*>(block) - span.start);
}

uint32_t blocks_touching(uint32_t page, const SizeClass& shape) {
  const size_t first = (size_t{page} << kPageShift) / shape.size;
  const size_t last = ((size_t{page + 1} << kPageShift) - 1) / shape.size;
  if (first >= shape.capacity) return 0;
  return static_cast<uint32_t>(min_of(last, shape.capacity - size_t{1}) - first + 1);
}

// The pages on which every block is free, in whole pages of the system; none if the list is
// damaged.
uint32_t free_pages(const Span& span, Damage& damage) {
  const SizeClass& shape = span.shape();
  PageUse<kPages> use;
  ListWalk walk(span, span.local);
  while (const Block* block = walk.next()) use.add(offset_of(span, block), shape.size);
  damage = walk.damage();
  if (unlikely(damage.present())) return 0;
  add_uncarved(use, span);
  const auto group = static_cast<uint32_t>(os::page_size() >> kPageShift);
  uint32_t pages = 0;
  for (uint32_t first = 0; first < kPages; first += group) {
    bool all_free = true;
    for (uint32_t page = first; page < first + group; page++) {
      all_free &= use.free[page] == blocks_touching(page, shape);
    }
    if (all_free) pages |= bit_run(first, group);
  }
  return pages;
}

// Removes the blocks that begin in `pages` from the span's list.
Damage unlink_pages(Span& span, uint32_t pages) {
  ListWalk walk(span, span.local);
  span.local.clear(span.start);
  Block* last = nullptr;
  while (Block* block = walk.next()) {
    if ((pages >> (offset_of(span, block) >> kPageShift) & 1) != 0) continue;
    last != nullptr ? last->link_to(block) : span.local.set(block->address());
    last = block;
  }
  if (last != nullptr) last->link_to(end_of_list(span.start));
  return walk.damage();
}

}  // namespace

size_t purge_free_pages(Span& span, Damage& damage) {
  NEAR_ASSERT(!carves_blocks(span.shape()));
  drop_ghost(span);
  const uint32_t pages = free_pages(span, damage);
  const uint32_t fresh = pages & ~span.uncarved & all_units(span);
  if (fresh == 0) return 0;
  damage = unlink_pages(span, fresh);
  if (unlikely(damage.present())) return 0;
  span.uncarved |= fresh;
  span.tried = 0;  // the links were written anew, without marks
  span.touched &= static_cast<uint16_t>(~fresh);
  for (uint32_t left = pages; left != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const auto count = static_cast<unsigned>(std::countr_one(left >> first));
    left &= ~bit_run(first, count);
    os::purge(span.start + (size_t{first} << kPageShift), size_t{count} << kPageShift);
  }
  return size_t{count_bits(fresh)} << kPageShift;
}

namespace {

constexpr uint32_t kMostPages = kSizeClasses.back().slices * kPages;

// Pages of a span of any class.
struct PageMarks {
  bool marked[kMostPages] = {};
  bool has(size_t offset) const { return marked[offset >> kPageShift]; }
};

// Marks the pages on which every block is free, in whole pages of the system. Returns how many of
// them were written since the system provided them.
uint32_t mark_free(const Span& span, const PageUse<kMostPages>& use, PageMarks& to) {
  const auto group = static_cast<uint32_t>(os::page_size() >> kPageShift);
  const auto all = static_cast<uint32_t>(span.bytes() >> kPageShift);
  uint32_t touched = 0;
  for (uint32_t first = 0; first < all; first += group) {
    bool all_free = true;
    for (uint32_t page = first; all_free && page < first + group; page++) {
      all_free = use.free[page] == blocks_touching(page, span.shape());
    }
    for (uint32_t page = first; all_free && page < first + group; page++) {
      to.marked[page] = true;
      touched += is_touched(span, size_t{page} << kPageShift) ? 1 : 0;
    }
  }
  return touched;
}

uint32_t place_of(const Span& span, const Block* block) {
  return block == nullptr ? 0 : static_cast<uint32_t>(offset_of(span, block)) + 1;
}

// Removes the blocks that begin in marked pages from the list that began with `first` when it was
// read; `first` becomes the ghost if it is one of them, or stays it.
Damage unlink_marked(Span& span, const FreeList& list, const PageMarks& pages) {
  Block* const first = list.front();
  Block* last = nullptr;  // the last block that stays, behind a ghost; null: the ghost
  Ghost ghost{};
  if (pages.has(offset_of(span, first))) {
    ghost.block = place_of(span, first);
  } else {
    last = first;
  }
  ListWalk walk(span, list);
  while (Block* block = walk.next()) {
    if (block == first || pages.has(offset_of(span, block))) continue;
    if (last == nullptr) {
      ghost.next = place_of(span, block);
    } else {
      last->link_to(block);
    }
    last = block;
  }
  if (walk.damage().present()) return walk.damage();
  if (last != nullptr) last->link_to(end_of_list(span.start));
  span.ghost = ghost;
  span.tried = 0;  // the links were written anew, without marks
  return {};
}

// The blocks that begin in marked pages are uncarved now.
void uncarve(Span& span, const PageMarks& pages) {
  const SizeClass& shape = span.shape();
  const size_t unit_bytes = carves_blocks(shape) ? shape.size : kPageSize;
  for (uint32_t units = all_units(span); units != 0; units &= units - 1) {
    const auto unit = static_cast<uint32_t>(std::countr_zero(units));
    if (pages.has(unit * unit_bytes)) span.uncarved |= uint32_t{1} << unit;
  }
}

void purge_marked(Span& span, const PageMarks& pages) {
  const auto all = static_cast<uint32_t>(span.bytes() >> kPageShift);
  for (uint32_t first = 0; first < all; first++) {
    uint32_t end = first;
    for (; end < all && pages.marked[end]; end++) {
      Span& slice = (&span)[end / kPages];
      slice.touched = static_cast<uint16_t>(slice.touched & ~bit_run(end % kPages, 1));
    }
    if (end == first) continue;
    os::purge(span.start + (size_t{first} << kPageShift), size_t{end - first} << kPageShift);
    first = end;
  }
}

}  // namespace

size_t purge_behind_first(Span& span, Damage& damage) {
  FreeList list;
  list.set(span.local.published_head());
  if (list.is_empty()) return 0;
  PageUse<kMostPages> use;
  ListWalk walk(span, list);
  while (const Block* block = walk.next()) use.add(offset_of(span, block), span.shape().size);
  damage = walk.damage();
  if (unlikely(damage.present())) return 0;
  add_uncarved(use, span);
  PageMarks pages;
  const uint32_t touched = mark_free(span, use, pages);
  if (touched == 0) return 0;
  damage = unlink_marked(span, list, pages);
  if (unlikely(damage.present())) return 0;
  uncarve(span, pages);
  purge_marked(span, pages);
  return size_t{touched} << kPageShift;
}

void drop_ghost_slow(Span& span) {
  ListWalk walk(span, span.local);
  const uintptr_t ghost = reinterpret_cast<uintptr_t>(span.start) + span.ghost.block - 1;
  Block* last = nullptr;  // the block before the ghost
  bool whole = true;      // if not, the list is damaged
  for (uintptr_t at = span.local.head(); whole && at != ghost;) {
    last = walk.next();
    whole = last != nullptr;
    if (whole) at = last->unmarked_distance() ^ last->address();
  }
  const uint32_t place = span.ghost.next;
  Block* const next = place == 0 ? nullptr : reinterpret_cast<Block*>(span.start + place - 1);
  span.ghost = {};
  if (!whole) return;
  if (last == nullptr) {
    next != nullptr ? span.local.set(next->address()) : span.local.clear(span.start);
  } else {
    next != nullptr ? last->link_to(next) : last->link_to(end_of_list(span.start));
  }
}

uint32_t count_list(const Span& span, const FreeList& list) {
  ListWalk walk(span, list);
  while (walk.next() != nullptr) continue;
  return walk.count();
}

uint32_t count_blocks(const Span& span, uint32_t units) {
  uint32_t count = 0;
  for (; units != 0; units &= units - 1) {
    const auto unit = static_cast<uint32_t>(std::countr_zero(units));
    count += Blocks(span.shape(), unit, unit + 1).count();
  }
  return count;
}

bool is_block(const Span& span, const void* block) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(block) - span.start);
  const SizeClass& shape = span.shape();
  return starts_block(uint64_t{offset}, shape.exact) &&
         offset < size_t{shape.capacity} * shape.size;
}

}  // namespace near
