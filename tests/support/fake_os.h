// An operating system that tests control: the other implementation of common/platform/os.h.
//
// It fails the n-th call of a kind, once or from then on; counts calls; pretends page size, memory
// and limits; and knows the state of every page, so a breach of the contract in os.h (an address
// outside of a reservation, a purge of what is not committed, a range that is not made of pretended
// pages) ends the process with a line that says so. Memory is real: a purge really zeroes it.
// The variable NEAR_FAKE_OS sets all of it before the library's own constructor runs, as in
// "page=65536,memory=1048576,address_space=N,commit=N,fail=commit:3:once" (or :forever).
// Thread-safety: any thread may use it; a process may fork while other threads are in calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near_test {

enum class OsCall : unsigned {
  reserve,
  make_readable,
  commit,
  purge,
  bind,
  locate,
  advise,
  map,
  unmap,
  move,
  any
};
inline constexpr unsigned kOsCalls = static_cast<unsigned>(OsCall::any);

const char* name_of(OsCall kind);

namespace fake_os {

// Refuses the n-th call of this kind from now on (1: the next), or that one and all later ones.
void fail(OsCall kind, uint64_t nth, bool forever);
void fail_none();

// Calls since the start of the process, refused ones included. `any`: of all kinds together.
uint64_t calls(OsCall kind);

// Calls that were refused because of `fail`, and mappings refused by one of the limits below.
uint64_t refusals();
uint64_t shortages();

void set_page_size(size_t bytes);
void set_physical_memory(size_t bytes);
void set_address_space_limit(size_t bytes);  // reported, and enforced on `reserve` and `map`
void set_commit_limit(size_t bytes);         // of all committed memory, as strict overcommit does

size_t reserved_bytes();
size_t committed_bytes();
bool is_committed(const void* address);

// The node that the page of `address` was bound to, or -1.
int bound_node(const void* address);

// The latest advice on huge pages that covers `address` (1: to use them, 0: not to), or -1. Refused
// advice does not count, nor what is older than the latest thousand.
int huge_page_advice(const void* address);

// Settings of the system for transparent huge pages.
enum class HugePages : uint8_t { never, madvise, always };

// The resident bytes of committed memory under such a setting: the written pages, and all of their
// 2 MiB where the setting and the latest advice allow a huge page.
size_t resident_bytes(HugePages setting);

// Where `locate` finds the page of `address` from now on, wherever it was bound.
void move_page(const void* address, unsigned node);

// How long `touch` says that it took.
void set_touch_ns(uint64_t ns);

// The next `map` finds another mapping in its way, which stays there.
void occupy_next();

// Refuses mappings below an address, and those whose place is not given; 0: none.
void refuse_below(uintptr_t address);

// Page size for a scope.
class PageSize {
 public:
  explicit PageSize(size_t bytes);
  ~PageSize();
  PageSize(const PageSize&) = delete;
  PageSize& operator=(const PageSize&) = delete;

 private:
  size_t before_;
};

}  // namespace fake_os
}  // namespace near_test
