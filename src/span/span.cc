#include "span/span.h"

#include <bit>

#include "base/assert.h"
#include "platform/os.h"

namespace near {


namespace {

constexpr auto kBlockPages = [] {
  std::array<uint32_t, kClasses> pages{};
  for (unsigned c = 0; c < kClasses; c++) {
    const SizeClass& shape = kSizeClasses[c];
    for (uint32_t page = 0; page < shape.slices * (kSliceSize >> kPageShift); page++) {
      const uint32_t first = first_block_from(page, shape.size);
      if (first < shape.capacity && first < first_block_from(page + 1, shape.size)) pages[c] |= 1U << page;
    }
  }
  return pages;
}();

}  // namespace

void form_span(Span& span, unsigned size_class) {
  const SizeClass& shape = kSizeClasses[size_class];
  span.size_class = static_cast<uint8_t>(size_class);
  span.reciprocal = span.reciprocal_again = shape.reciprocal;
  span.local = nullptr;
  span.reusable = false;
  span.sparse = false;
  span.uncarved = kBlockPages[size_class];
  for (uint32_t i = 1; i < shape.slices; i++) {
    Span& inside = (&span)[i];
    inside.kind = SpanKind::inside;
    inside.back = i;
  }
  span.kind = SpanKind::blocks;
}

void carve_page(Span& span, Block** list) {
  NEAR_ASSERT(span.uncarved != 0);
  const SizeClass& shape = span.shape();
  const auto page = static_cast<uint32_t>(std::countr_zero(span.uncarved));
  span.uncarved &= span.uncarved - 1;
  const uint32_t size = shape.size;
  const uint32_t begin = first_block_from(page, size);
  const auto end = static_cast<uint32_t>(min_of(first_block_from(page + 1, size), shape.capacity));
  char* block = span.start + size_t{begin} * size;
  char* last = span.start + size_t{end - 1} * size;
  Block* rest = *list;
  *list = reinterpret_cast<Block*>(block);
  for (; block != last; block += size) {
    reinterpret_cast<Block*>(block)->next = reinterpret_cast<Block*>(block + size);
  }
  reinterpret_cast<Block*>(last)->next = rest;
}

namespace {

constexpr uint32_t kMaxPages = 2 * (kSliceSize >> kPageShift);

// How many free blocks touch each page of a span, against how many blocks do.
struct PageUse {
  uint16_t free[kMaxPages] = {};

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

// The pages whose every block is free, as whole pages of the system.
uint32_t free_pages(const Span& span) {
  const SizeClass& shape = span.shape();
  PageUse use;
  for (const Block* block = span.local; block != nullptr; block = block->next) {
    use.add(static_cast<size_t>(reinterpret_cast<const char*>(block) - span.start), shape.size);
  }
  for (uint32_t pages = span.uncarved; pages != 0; pages &= pages - 1) {
    const auto page = static_cast<uint32_t>(std::countr_zero(pages));
    const size_t end = min_of(first_block_from(page + 1, shape.size), shape.capacity);
    for (size_t i = first_block_from(page, shape.size); i < end; i++) use.add(i * shape.size, shape.size);
  }
  const auto group = static_cast<uint32_t>(os::page_size() >> kPageShift);
  uint32_t pages = 0;
  for (uint32_t first = 0; first < span.slices * (kSliceSize >> kPageShift); first += group) {
    bool all_free = true;
    for (uint32_t page = first; page < first + group; page++) {
      all_free &= use.free[page] == blocks_touching(page, shape);
    }
    if (all_free) pages |= bit_run(first, group);
  }
  return pages;
}

}  // namespace

size_t purge_free_pages(Span& span) {
  const uint32_t pages = free_pages(span);
  const uint32_t fresh = pages & kBlockPages[span.size_class] & ~span.uncarved;
  if (fresh == 0) return 0;
  Block** link = &span.local;
  for (Block* block = span.local; block != nullptr; block = block->next) {
    const auto page = static_cast<uint32_t>((reinterpret_cast<char*>(block) - span.start) >> kPageShift);
    if ((fresh >> page & 1) != 0) continue;
    *link = block;
    link = &block->next;
  }
  *link = nullptr;
  span.uncarved |= fresh;
  for (uint32_t left = pages; left != 0;) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const auto count = static_cast<unsigned>(std::countr_one(left >> first));
    left &= ~bit_run(first, count);
    os::purge(span.start + (size_t{first} << kPageShift), size_t{count} << kPageShift);
  }
  return static_cast<size_t>(std::popcount(fresh)) << kPageShift;
}

uint32_t count_list(const Span& span, const Block* list) {
  uint32_t count = 0;
  for (; list != nullptr && count <= span.shape().capacity; list = list->next) count++;
  return count;
}

uint32_t count_uncarved(const Span& span) {
  const SizeClass& shape = span.shape();
  uint32_t count = 0;
  for (uint32_t pages = span.uncarved; pages != 0; pages &= pages - 1) {
    const auto page = static_cast<uint32_t>(std::countr_zero(pages));
    count += static_cast<uint32_t>(min_of(first_block_from(page + 1, shape.size), shape.capacity)) -
             first_block_from(page, shape.size);
  }
  return count;
}

bool is_block(const Span& span, const void* block) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(block) - span.start);
  const SizeClass& shape = span.shape();
  return offset % shape.size == 0 && offset / shape.size < shape.capacity;
}

}  // namespace near
