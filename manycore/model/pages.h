// The address space: mappings, present pages and their nodes, faults, and the kernel's lock of it.
#pragma once

#include "model/machine.h"

namespace near::manycore {

enum class Policy : uint8_t { kFirstTouch, kBind, kInterleave, kPreferred };

// What a page access or a call cost.
struct PageOutcome {
  Time cost;        // to the caller, `waited` included
  Time waited;      // for the kernel's lock of the address space
  unsigned node;    // where the page lies
  bool faulted;
  bool huge;
};

class Pages {
 public:
  Pages(const Machine& machine, void* (*reserve)(size_t bytes));

  // The page of `address` is needed by `processor`. Its first access is a fault: it takes the
  // address space's lock shared, zeroes the page, and places it by the mapping's policy. An address
  // outside all mappings that were announced (a stack, a library's data) counts as mapped, present
  // and on the node of its first processor.
  PageOutcome touch(unsigned processor, uintptr_t address, Time now);

  // Whether touch would cost nothing, and on which node the page lies. The engine's fast path.
  bool present(uintptr_t address, unsigned& node) const;

  // mmap, munmap, mprotect, madvise and mbind, after the host's own call succeeded: the cost of the
  // call, which holds the address space's lock exclusively (madvise: shared). `running` says which
  // processors run a thread of the process now: they are interrupted when pages that were present
  // go away or lose rights, and `interrupted(processor, cost)` is called for each.
  struct Call {
    Time cost;
    Time waited;
    size_t pages;        // of 4 KiB, that were present and went
    unsigned interrupts;
  };
  using Interrupted = void (*)(void* context, unsigned processor, Time cost);
  Call map(unsigned processor, uintptr_t begin, size_t bytes, bool huge, Time now);
  Call unmap(unsigned processor, uintptr_t begin, size_t bytes, Time now, const bool* running,
             Interrupted interrupted, void* context);
  Call protect(unsigned processor, uintptr_t begin, size_t bytes, Time now, const bool* running,
               Interrupted interrupted, void* context);
  Call discard(unsigned processor, uintptr_t begin, size_t bytes, Time now, const bool* running,
               Interrupted interrupted, void* context);  // MADV_DONTNEED, MADV_FREE
  void set_policy(uintptr_t begin, size_t bytes, Policy policy, uint64_t nodes);
  void set_huge(uintptr_t begin, size_t bytes, bool huge);  // MADV_HUGEPAGE, MADV_NOHUGEPAGE
  void move(uintptr_t from, uintptr_t to, size_t bytes);    // mremap: present pages keep their nodes

  size_t present_bytes() const;       // what the process's RSS would be
  size_t most_present_bytes() const;  // its peak
};

}  // namespace near::manycore
