#include "designs/nalloc/pages.h"

#include "designs/nalloc/settings.h"
#include "platform/os.h"

namespace near::design::nalloc {

constinit Pages pages;

bool Pages::start() {
  constexpr size_t kMost = size_t{1} << 42;
  constexpr size_t kChunk = kChunkPages * kPage;
  return arena_.reserve(kMost, 8 * kMiB, kChunk, kChunk);
}

char* Pages::take(FreshPages& fresh) {
  char* page = pop(clean_, clean_count_);
  if (page == nullptr && fresh.next != fresh.end) return at(fresh.next++);
  if (page == nullptr) page = pop(purged_, purged_count_);
  return page != nullptr ? page : take_fresh(fresh);
}

char* Pages::take_fresh(FreshPages& fresh) {
  const size_t bytes = size_t{settings.batch} * kPage;
  void* batch = arena_.take(bytes);
  if (batch == nullptr) return nullptr;
  // Only advice: pages that are not resident now are so when they are touched.
  if (settings.populate && os::page_size() == kPage && os::populate(batch, bytes)) {
    populated_.fetch_add(settings.batch, kRelaxed);  // relaxed: a statistic
  }
  fresh.next = index_of(batch);
  fresh.end = fresh.next + settings.batch;
  if (fresh.next % kChunkPages == 0) fresh.next++;  // the links of the chunk
  // A batch of one page may be the links alone.
  return fresh.next != fresh.end ? at(fresh.next++) : take_fresh(fresh);
}

void Pages::put(char* page) {
  const uint32_t index = index_of(page);
  const size_t limit = settings.clean_pages;
  if (limit != 0 && clean() >= limit && purge(index)) return;
  push(clean_, clean_count_, index);
}

bool Pages::trim() {
  bool any = false;
  while (const char* page = pop(clean_, clean_count_)) {
    const uint32_t index = index_of(page);
    if (!purge(index)) {
      push(clean_, clean_count_, index);
      break;
    }
    any = true;
  }
  return any;
}

// The caller has the page, and keeps it if a system page is larger than one of ours.
bool Pages::purge(uint32_t index) {
  if (os::page_size() != kPage || !os::purge(at(index), kPage)) return false;
  push(purged_, purged_count_, index);
  return true;
}

char* Pages::pop(TaggedStack& stack, Atomic<size_t>& count) {
  const uint32_t index = stack.pop(*this);
  if (index == 0) return nullptr;
  count.fetch_sub(1, kRelaxed);  // relaxed: a statistic
  return at(index);
}

void Pages::push(TaggedStack& stack, Atomic<size_t>& count, uint32_t index) {
  count.fetch_add(1, kRelaxed);  // relaxed: a statistic; before the push, so that it is never short
  stack.push(*this, index);
}

}  // namespace near::design::nalloc
