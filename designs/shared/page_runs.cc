#include "designs/shared/page_runs.h"

#include "base/bits.h"
#include "platform/os.h"

namespace near::design {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

char* PageRuns::Run::end() { return reinterpret_cast<char*>(this) + pages * kPage; }

// Where the header of a large block is. Also asked of addresses that are none: null if it would not
// even be memory.
PageRuns::Header* PageRuns::header_of(const void* block) const {
  auto* page = reinterpret_cast<char*>(align_down(reinterpret_cast<uintptr_t>(block), kPage));
  if (page == block) page -= kPage;
  return arena_.has_given(page) ? reinterpret_cast<Header*>(page) : nullptr;
}

// Whether this is the header of a live block that begins there.
bool PageRuns::is_live(const Header& header, const void* block) {
  const auto skipped =
      static_cast<size_t>(static_cast<const char*>(block) - reinterpret_cast<const char*>(&header));
  if (skipped != sizeof(Header) && skipped != kPage) return false;
  // relaxed: written before the block was handed out
  return header.mark.load(kRelaxed) == (skipped == kPage ? kAlignedMark : kMark);
}

char* PageRuns::take_pages(size_t pages, bool* zero) {
  for (Run** link = &first_; *link != nullptr; link = &(*link)->next, totals_.walked++) {
    Run* run = *link;
    if (run->pages < pages) continue;
    run->pages -= pages;
    if (run->pages == 0) *link = run->next;
    return run->pages == 0 ? reinterpret_cast<char*>(run) : run->end();
  }
  if (zero != nullptr) *zero = true;
  return static_cast<char*>(arena_.take(pages * kPage));
}

void PageRuns::put_pages(char* start, size_t pages) {
  Run* before = nullptr;
  Run* after = first_;
  for (; after != nullptr && reinterpret_cast<char*>(after) < start; after = after->next) {
    before = after;
    totals_.walked++;
  }
  auto* run = reinterpret_cast<Run*>(start);
  if (before != nullptr && before->end() == start) {
    before->pages += pages;
    before->trimmed = false;
    run = before;
  } else {
    *run = {.next = after, .pages = pages, .trimmed = false};
    (before != nullptr ? before->next : first_) = run;
  }
  if (after != nullptr && run->end() == reinterpret_cast<char*>(after)) {
    run->pages += after->pages;
    run->next = after->next;
  }
}

void* PageRuns::take(size_t size, size_t alignment, bool* zero) {
  if (size > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4) return nullptr;
  const bool follows_header = alignment <= sizeof(Header);
  const size_t front = follows_header ? sizeof(Header) : max_of(alignment, kPage);
  const size_t pages = div_up(front + max_of(size, 1), kPage);  // an empty block is one, too
  if (pages > UINT32_MAX) return nullptr;                       // its header could not say it
  const LockGuard guard(lock_);
  char* start = take_pages(pages, zero);
  if (start == nullptr) return nullptr;
  char* block = start + front;
  if (!follows_header) {
    block = reinterpret_cast<char*>(align_down(reinterpret_cast<uintptr_t>(block), front));
  }
  Header* header = header_of(block);
  const auto before = static_cast<size_t>(reinterpret_cast<char*>(header) - start) / kPage;
  // relaxed: who frees it got it from the caller
  header->mark.store(follows_header ? kMark : kAlignedMark, kRelaxed);
  header->pages = static_cast<uint32_t>(pages - before);
  header->before = before;
  totals_.blocks++;
  totals_.in_use += pages * kPage;
  return block;
}

bool PageRuns::put(void* block) {
  Header* header = header_of(block);
  if (header == nullptr) return false;
  const LockGuard guard(lock_);
  if (!is_live(*header, block)) return false;
  const size_t pages = header->before + header->pages;
  header->mark.store(0, kRelaxed);  // relaxed: a second free looks under the lock
  totals_.blocks--;
  totals_.in_use -= pages * kPage;
  put_pages(reinterpret_cast<char*>(header) - header->before * kPage, pages);
  return true;
}

size_t PageRuns::usable(const void* block) const {
  const Header* header = header_of(block);
  if (header == nullptr || !is_live(*header, block)) return 0;
  const auto skipped =
      static_cast<size_t>(static_cast<const char*>(block) - reinterpret_cast<const char*>(header));
  return header->pages * kPage - skipped;
}

bool PageRuns::trim() {
  const LockGuard guard(lock_);
  bool any = false;
  for (Run* run = first_; run != nullptr; run = run->next) {
    if (run->trimmed) continue;
    // All but the page that the run's own link is in.
    const size_t page = max_of(kPage, os::page_size());
    const size_t from = align_up(reinterpret_cast<uintptr_t>(run) + sizeof(Run), page);
    const size_t to = align_down(reinterpret_cast<uintptr_t>(run->end()), page);
    run->trimmed = from < to && os::purge(reinterpret_cast<void*>(from), to - from);
    any = any || run->trimmed;
  }
  return any;
}

PageRuns::Totals PageRuns::totals() {
  const LockGuard guard(lock_);
  return totals_;
}

}  // namespace near::design
