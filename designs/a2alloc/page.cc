#include "designs/a2alloc/page.h"

namespace near::design::a2alloc {
namespace {

Header* page_header(const Pageref& pageref) { return reinterpret_cast<Header*>(pageref.page); }

bool page_has_header() {
  return kVariant.per_processor && !settings.block_metadata && !settings.pageref_in_page;
}

void write(Header* header, const Pageref& pageref) {
  // relaxed: the thread that frees the block received it from the thread that took it
  header->heap.store(pageref.heap.load(kRelaxed), kRelaxed);
  header->count = pageref.size_class;
  header->pageref = const_cast<Pageref*>(&pageref);
}

bool is_head(const Pageref& pageref, const PageLayout& layout, const void* block) {
  return layout.head_room > 0 && block == pageref.page + layout.head_start;
}

// Whether a whole block of the page begins there.
bool is_whole(const Pageref& pageref, const PageLayout& layout, const char* start) {
  const auto offset = static_cast<size_t>(start - pageref.page);
  return offset >= layout.first && offset < kPage && offset % size_of(pageref.size_class) == 0;
}

}  // namespace

void prepare(Pageref& pageref, unsigned size_class, int32_t heap) {
  const PageLayout layout = layout_of(size_class);
  pageref.size_class = size_class;
  pageref.used = 0;
  pageref.heap.store(heap, kRelaxed);  // relaxed: the page has no block that a thread could free
  pageref.head_is_free = layout.head_room > block_header_bytes();
  pageref.free = nullptr;
  for (size_t at = kPage; at > layout.first; at -= size_of(size_class)) {
    auto* block = reinterpret_cast<Block*>(pageref.page + at - size_of(size_class));
    block->next = pageref.free;
    pageref.free = block;
  }
  if (page_has_header()) write(page_header(pageref), pageref);
}

void* take_block(Pageref& pageref, size_t size) {
  char* block = nullptr;
  if (pageref.head_is_free && fits_head(pageref.size_class, size)) {
    block = pageref.page + layout_of(pageref.size_class).head_start;
    pageref.head_is_free = false;
  }
  if (block == nullptr) {
    if (pageref.free == nullptr) return nullptr;
    block = reinterpret_cast<char*>(pageref.free);
    pageref.free = pageref.free->next;
  }
  pageref.used++;
  if (settings.block_metadata) write(reinterpret_cast<Header*>(block), pageref);
  return block + block_header_bytes();
}

Freed put_block(Pageref& pageref, void* block) {
  const PageLayout layout = layout_of(pageref.size_class);
  char* start = static_cast<char*>(block) - block_header_bytes();
  const bool head = is_head(pageref, layout, start);
  if (!head && !is_whole(pageref, layout, start)) return Freed::no_block;
  if (pageref.used == 0) return Freed::twice;
  if (head) {
    if (pageref.head_is_free) return Freed::twice;
    pageref.head_is_free = true;
  } else {
    auto* freed = reinterpret_cast<Block*>(start);
    if (pageref.free == freed) return Freed::twice;
    freed->next = pageref.free;
    pageref.free = freed;
  }
  pageref.used--;
  return Freed::yes;
}

void set_heap(Pageref& pageref, int32_t heap) {
  // relaxed: a thread that reads a heap's number checks it again under that heap's lock
  pageref.heap.store(heap, kRelaxed);
  if (page_has_header()) page_header(pageref)->heap.store(heap, kRelaxed);  // relaxed: as above
}

size_t usable_in(const Pageref& pageref, const void* block) {
  const PageLayout layout = layout_of(pageref.size_class);
  const char* start = static_cast<const char*>(block) - block_header_bytes();
  const size_t whole =
      is_head(pageref, layout, start) ? layout.head_room : size_of(pageref.size_class);
  return whole - block_header_bytes();
}

}  // namespace near::design::a2alloc
