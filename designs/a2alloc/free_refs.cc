#include "designs/a2alloc/free_refs.h"

#include "platform/os.h"

namespace near::design::a2alloc {
namespace {

Pageref* pop(Pageref*& list) {
  Pageref* first = list;
  if (first != nullptr) list = first->next;
  return first;
}

void push(Pageref*& list, Pageref* pageref) {
  pageref->next = list;
  list = pageref;
}

}  // namespace

alignas(64) constinit design::Arena arena;
constinit FreeRefs free_refs;

Pageref* FreeRefs::take() {
  const LockGuard guard(lock_);
  Pageref* pageref = pop(reusable_);
  if (pageref == nullptr) pageref = pop(purged_);
  if (pageref != nullptr) {
    totals_.reused++;
    return pageref;
  }
  pageref = fresh();
  if (pageref != nullptr) totals_.fresh++;
  return pageref;
}

// A pageref with a page that was never used.
Pageref* FreeRefs::fresh() {
  if (settings.pageref_in_page) {
    auto* page = static_cast<char*>(arena.take(kPage));
    if (page == nullptr) return nullptr;
    auto* pageref = reinterpret_cast<Pageref*>(page);
    pageref->page = page;
    return pageref;
  }
  Pageref* pageref = take_unused();
  if (pageref == nullptr) return nullptr;
  pageref->page = static_cast<char*>(arena.take(kPage));
  if (pageref->page != nullptr) return pageref;
  push(unused_, pageref);
  return nullptr;
}

// Takes a page's worth of pagerefs at a time, each on a cache line of its own.
Pageref* FreeRefs::take_unused() {
  if (unused_ == nullptr) {
    auto* more = static_cast<Pageref*>(arena.take(kPage));
    if (more == nullptr) return nullptr;
    for (size_t i = kPage / sizeof(Pageref); i-- > 0;) push(unused_, &more[i]);
  }
  return pop(unused_);
}

void FreeRefs::put(Pageref* pageref) {
  const LockGuard guard(lock_);
  push(reusable_, pageref);
}

bool FreeRefs::trim() {
  // A page that starts with its pageref must stay; a system page may be larger than ours.
  if (settings.pageref_in_page || os::page_size() != kPage) return false;
  const LockGuard guard(lock_);
  bool any = false;
  while (Pageref* pageref = pop(reusable_)) {
    any = os::purge(pageref->page, kPage) || any;
    push(purged_, pageref);
  }
  return any;
}

FreeRefs::Totals FreeRefs::totals() {
  const LockGuard guard(lock_);
  return totals_;
}

}  // namespace near::design::a2alloc
