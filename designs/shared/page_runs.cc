#include "designs/shared/page_runs.h"

#include <cstring>

#include "base/bits.h"

namespace near::design {
namespace {

constexpr size_t kPage = FreeRuns::kPage;

}  // namespace

// The header of the large block at `block`. The caller may pass any address: the result is null if
// no memory has been handed out there.
PageRuns::Header* PageRuns::header_of(const void* block) const {
  auto* page = reinterpret_cast<char*>(align_down(reinterpret_cast<uintptr_t>(block), kPage));
  if (page == block) page -= kPage;
  return arena_.has_given(page) ? reinterpret_cast<Header*>(page) : nullptr;
}

// Whether `header` is that of a live block that begins at `block`.
bool PageRuns::is_live(const Header& header, const void* block) {
  const auto skipped =
      static_cast<size_t>(static_cast<const char*>(block) - reinterpret_cast<const char*>(&header));
  if (skipped != sizeof(Header) && skipped != kPage) return false;
  // relaxed: written before the block was handed out
  return header.mark.load(kRelaxed) == (skipped == kPage ? kAlignedMark : kMark);
}

char* PageRuns::take_pages(size_t pages, bool& fresh) {
  if (char* start = free_.take(pages)) return start;
  fresh = true;
  return static_cast<char*>(arena_.take(pages * kPage));
}

void* PageRuns::take(size_t size, size_t alignment, bool& fresh) {
  if (size > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4) return nullptr;
  const bool follows_header = alignment <= sizeof(Header);
  const size_t front = follows_header ? sizeof(Header) : max_of(alignment, kPage);
  const size_t pages = div_up(front + max_of(size, 1), kPage);  // an empty block takes a page too
  if (pages > UINT32_MAX) return nullptr;                       // the header has 32 bits for it
  const LockGuard guard(lock_);
  char* start = take_pages(pages, fresh);
  if (start == nullptr) return nullptr;
  char* block = start + front;
  if (!follows_header) {
    block = reinterpret_cast<char*>(align_down(reinterpret_cast<uintptr_t>(block), front));
  }
  Header* header = header_of(block);
  const auto before = static_cast<size_t>(reinterpret_cast<char*>(header) - start) / kPage;
  // relaxed: the thread that frees the block received it from the caller
  header->mark.store(follows_header ? kMark : kAlignedMark, kRelaxed);
  header->pages = static_cast<uint32_t>(pages - before);
  header->before = before;
  blocks_++;
  in_use_ += pages * kPage;
  return block;
}

void* PageRuns::take_zeroed(size_t size, size_t alignment) {
  bool fresh = false;
  void* block = take(size, alignment, fresh);
  return block == nullptr || fresh ? block : memset(block, 0, size);
}

bool PageRuns::put(void* block) {
  Header* header = header_of(block);
  if (header == nullptr) return false;
  const LockGuard guard(lock_);
  if (!is_live(*header, block)) return false;
  const size_t pages = header->before + header->pages;
  header->mark.store(0, kRelaxed);  // relaxed: a second free checks under the lock
  blocks_--;
  in_use_ -= pages * kPage;
  free_.put(reinterpret_cast<char*>(header) - header->before * kPage, pages);
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
  return free_.trim();
}

PageRuns::Totals PageRuns::totals() {
  const LockGuard guard(lock_);
  return {.blocks = blocks_, .in_use = in_use_, .walked = free_.walked()};
}

}  // namespace near::design
