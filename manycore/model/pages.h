// The address space: mappings, present pages and their nodes, faults, and the kernel's lock of it.
#pragma once

#include "model/machine.h"
#include "model/table.h"

namespace near::manycore {

enum class Policy : uint8_t { kFirstTouch, kBind, kInterleave, kPreferred };

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugeBytes = size_t{2} << 20;
inline constexpr size_t kPagesInHuge = kHugeBytes / kPageBytes;

// What the first access to a page cost.
struct PageOutcome {
  Time cost;    // to the accessing processor, `waited` included
  Time waited;  // for the kernel's lock of the address space
  unsigned node;
  bool faulted;
  bool huge;
};

// What a call of the kernel cost.
struct CallOutcome {
  Time cost;
  Time waited;          // for the kernel's lock of the address space
  size_t pages;         // of 4 KiB, that were present and went or lost rights
  unsigned interrupts;  // processors that were interrupted
};

class Pages {
 public:
  // `gone(begin, bytes)` is called for pages that are no longer present. The machine should outlive
  // the pages.
  using Gone = void (*)(uintptr_t begin, size_t bytes);
  void create(const Machine& machine, Reserve reserve, Gone gone);

  // A processor accesses a page. The first access to a page of a mapping is a fault: it takes the
  // address space's lock shared, zeroes the page, and places it by the mapping's policy. An address
  // outside all mappings (a stack, a library's data) has no fault, and its page lies on the node of
  // its first processor.
  PageOutcome touch(unsigned processor, uintptr_t address, Time now);

  // The node of a present page, or -1.
  int node_of(uintptr_t address) const;

  // The calls below come after the host's own call succeeded. `running` says which processors run a
  // thread of the process: those are interrupted when present pages go or lose rights, and
  // `interrupted(processor, cost)` is called for each, the caller excepted.
  using Interrupted = void (*)(unsigned processor, Time cost);
  struct Caller {
    unsigned processor;
    Time now;
    const bool* running;
    Interrupted interrupted;
  };
  CallOutcome map(const Caller& caller, uintptr_t begin, size_t bytes);  // replaces what is there
  CallOutcome unmap(const Caller& caller, uintptr_t begin, size_t bytes);
  CallOutcome protect(const Caller& caller, uintptr_t begin, size_t bytes);
  CallOutcome discard(const Caller& caller, uintptr_t begin, size_t bytes);  // MADV_DONTNEED
  // mremap: present pages keep their nodes.
  CallOutcome move(const Caller& caller, uintptr_t from, size_t from_bytes, uintptr_t to,
                   size_t to_bytes);
  CallOutcome barrier(const Caller& caller);  // membarrier
  void set_policy(uintptr_t begin, size_t bytes, Policy policy, uint64_t nodes);
  void set_huge(uintptr_t begin, size_t bytes, bool huge);  // MADV_HUGEPAGE, MADV_NOHUGEPAGE

  size_t present_bytes() const { return present_ * kPageBytes; }
  size_t most_present_bytes() const { return most_present_ * kPageBytes; }

 private:
  static constexpr unsigned kMostRanges = 1 << 16;
  struct Range {  // a mapping, or a part of one with its own policy
    uintptr_t begin, end;
    uint64_t nodes;
    Policy policy;
    bool huge;
  };
  struct Region {  // 2 MiB
    uint64_t key;  // its number + 1
    uint64_t present[kPagesInHuge / 64];
    uint8_t node[kPagesInHuge];
  };

  // The first range that ends after the address.
  unsigned range_after(uintptr_t address) const;
  void split(uintptr_t address);
  void erase(uintptr_t begin, uintptr_t end);
  void insert(const Range& range);
  template <typename Visit>
  void each_present(uintptr_t begin, uintptr_t end, Visit visit);
  PageOutcome fault(const Range& range, unsigned processor, uintptr_t address, Time now);
  unsigned place(const Range& range, unsigned processor, uintptr_t address) const;
  bool is_huge(const Range& range, uintptr_t address) const;
  void set_present(uintptr_t page, unsigned node);
  size_t lose(uintptr_t begin, size_t bytes);
  CallOutcome finish(const Caller& caller, Time work, size_t pages, bool exclusive);
  unsigned interrupt(const Caller& caller) const;

  const Machine* machine_ = nullptr;
  Gone gone_ = nullptr;
  Table<Region> regions_;
  Range* ranges_ = nullptr;  // in the order of addresses
  unsigned count_ = 0;
  size_t present_ = 0;  // pages of mappings
  size_t most_present_ = 0;
  // The lock of the address space.
  Time exclusive_until_ = 0;
  Time shared_until_ = 0;
  Time word_until_ = 0;  // each holder, shared or not, writes the lock's cache line
};

}  // namespace near::manycore
