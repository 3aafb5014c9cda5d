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

// How many free blocks touch each page of a span.
struct PageUse {
  uint16_t free[kPages] = {};

  void add(size_t offset, uint32_t size) {
    const size_t last = (offset + size - 1) >> kPageShift;
    for (size_t page = offset >> kPageShift; page <= last; page++) free[page]++;
  }
};

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
  PageUse use;
  ListWalk walk(span, span.local);
  while (const Block* block = walk.next()) {
    use.add(static_cast<size_t>(reinterpret_cast<const char*>(block) - span.start), shape.size);
  }
  damage = walk.damage();
  if (unlikely(damage.present())) return 0;
  for (uint32_t units = span.uncarved; units != 0; units &= units - 1) {
    const auto unit = static_cast<uint32_t>(std::countr_zero(units));
    const Blocks blocks(shape, unit, unit + 1);
    for (size_t i = blocks.begin; i < blocks.end; i++) use.add(i * shape.size, shape.size);
  }
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
    const auto page =
        static_cast<uint32_t>((reinterpret_cast<char*>(block) - span.start) >> kPageShift);
    if ((pages >> page & 1) != 0) continue;
    last != nullptr ? last->link_to(block) : span.local.set(block->address());
    last = block;
  }
  if (last != nullptr) last->link_to_end();
  return walk.damage();
}

}  // namespace

size_t purge_free_pages(Span& span, Damage& damage) {
  NEAR_ASSERT(!carves_blocks(span.shape()));
  const uint32_t pages = free_pages(span, damage);
  const uint32_t fresh = pages & ~span.uncarved & all_units(span);
  if (fresh == 0) return 0;
  damage = unlink_pages(span, fresh);
  if (unlikely(damage.present())) return 0;
  span.uncarved |= fresh;
  span.touched &= static_cast<uint16_t>(~fresh);
  for (uint32_t left = pages; left != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const auto count = static_cast<unsigned>(std::countr_one(left >> first));
    left &= ~bit_run(first, count);
    os::purge(span.start + (size_t{first} << kPageShift), size_t{count} << kPageShift);
  }
  return size_t{count_bits(fresh)} << kPageShift;
}

uint32_t count_list(const Span& span, const FreeList& list) {
  ListWalk walk(span, list);
  while (walk.next() != nullptr) continue;
  return walk.count();
}

uint32_t count_uncarved(const Span& span) {
  uint32_t count = 0;
  for (uint32_t units = span.uncarved; units != 0; units &= units - 1) {
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
