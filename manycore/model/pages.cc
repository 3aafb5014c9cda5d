#include "model/pages.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <cstdio>
#include <cstdlib>

namespace near::manycore {

void Pages::create(const Machine& machine, Reserve reserve, Gone gone) {
  machine_ = &machine;
  gone_ = gone;
  regions_.create(reserve);
  ranges_ = static_cast<Range*>(reserve(kMostRanges * sizeof(Range)));
}

// --- ranges ---

unsigned Pages::range_after(uintptr_t address) const {
  const auto ends_before = [](const Range& range, uintptr_t value) { return range.end <= value; };
  return static_cast<unsigned>(
      std::lower_bound(ranges_, ranges_ + count_, address, ends_before) - ranges_);
}

void Pages::insert(const Range& range) {
  if (count_ == kMostRanges) {
    std::fputs("manycore: the process has too many mappings\n", stderr);
    abort();
  }
  const unsigned at = range_after(range.begin);
  std::copy_backward(ranges_ + at, ranges_ + count_, ranges_ + count_ + 1);
  ranges_[at] = range;
  ++count_;
}

// Effect: no range contains the address and begins before it.
void Pages::split(uintptr_t address) {
  const unsigned at = range_after(address);
  if (at == count_ || ranges_[at].begin >= address) return;
  Range upper = ranges_[at];
  ranges_[at].end = upper.begin = address;
  insert(upper);
}

void Pages::erase(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  const unsigned first = range_after(begin);
  unsigned last = first;
  while (last < count_ && ranges_[last].begin < end) ++last;
  std::copy(ranges_ + last, ranges_ + count_, ranges_ + first);
  count_ -= last - first;
}

void Pages::set_policy(uintptr_t begin, size_t bytes, Policy policy, uint64_t nodes) {
  split(begin);
  split(begin + bytes);
  for (unsigned i = range_after(begin); i < count_ && ranges_[i].begin < begin + bytes; ++i) {
    ranges_[i].policy = policy;
    ranges_[i].nodes = nodes;
  }
}

void Pages::set_huge(uintptr_t begin, size_t bytes, bool huge) {
  split(begin);
  split(begin + bytes);
  for (unsigned i = range_after(begin); i < count_ && ranges_[i].begin < begin + bytes; ++i) {
    ranges_[i].huge = huge;
  }
}

// --- pages ---

int Pages::node_of(uintptr_t address) const {
  const Region* const region = regions_.find(address / kHugeBytes + 1);
  const size_t page = address / kPageBytes % kPagesInHuge;
  if (region == nullptr || (region->present[page / 64] >> page % 64 & 1) == 0) return -1;
  return region->node[page];
}

PageOutcome Pages::touch(unsigned processor, uintptr_t address, Time now) {
  const int node = node_of(address);
  if (node >= 0) return {0, 0, static_cast<unsigned>(node), false, false};
  const unsigned at = range_after(address);
  if (at < count_ && ranges_[at].begin <= address) {
    return fault(ranges_[at], processor, address, now);
  }
  set_present(address, machine_->node_of[processor]);
  return {0, 0, machine_->node_of[processor], false, false};
}

void Pages::set_present(uintptr_t address, unsigned node) {
  Region& region = regions_.at(address / kHugeBytes + 1);
  const size_t page = address / kPageBytes % kPagesInHuge;
  region.present[page / 64] |= uint64_t{1} << page % 64;
  region.node[page] = static_cast<uint8_t>(node);
}

unsigned Pages::place(const Range& range, unsigned processor, uintptr_t address) const {
  const unsigned here = machine_->node_of[processor];
  if (range.policy == Policy::kFirstTouch || range.nodes == 0) return here;
  if (range.policy == Policy::kInterleave) {
    uint64_t nodes = range.nodes;
    const auto skip = address / kPageBytes % static_cast<unsigned>(std::popcount(nodes));
    for (size_t i = 0; i < skip; ++i) nodes &= nodes - 1;
    return static_cast<unsigned>(std::countr_zero(nodes));
  }
  if (range.nodes >> here & 1) return here;
  return static_cast<unsigned>(std::countr_zero(range.nodes));
}

// Whether a fault makes 2 MiB present: the range wants it and contains all of it, none is present.
bool Pages::is_huge(const Range& range, uintptr_t address) const {
  const uintptr_t begin = address / kHugeBytes * kHugeBytes;
  if (!range.huge || begin < range.begin || begin + kHugeBytes > range.end) return false;
  const Region* const region = regions_.find(address / kHugeBytes + 1);
  return region == nullptr || std::all_of(std::begin(region->present), std::end(region->present),
                                          [](uint64_t word) { return word == 0; });
}

PageOutcome Pages::fault(const Range& range, unsigned processor, uintptr_t address, Time now) {
  const bool huge = is_huge(range, address);
  const size_t bytes = huge ? kHugeBytes : kPageBytes;
  const uintptr_t begin = address / bytes * bytes;
  const unsigned node = place(range, processor, begin);
  for (uintptr_t page = begin; page < begin + bytes; page += kPageBytes) set_present(page, node);
  present_ += bytes / kPageBytes;
  most_present_ = std::max(most_present_, present_);
  const Time start = std::max({now, exclusive_until_, word_until_});
  word_until_ = start + machine_->transfer_core;
  const Time work = (huge ? machine_->fault_huge : machine_->fault_small) +
                    machine_->zero_kibibyte * (bytes / 1024);
  shared_until_ = std::max(shared_until_, start + work);
  return {start - now + work, start - now, node, true, huge};
}

template <typename Visit>
void Pages::each_present(uintptr_t begin, uintptr_t end, Visit visit) {
  const auto in_region = [&](Region& region) {
    const uintptr_t base = (region.key - 1) * kHugeBytes;
    for (size_t page = 0; page < kPagesInHuge; ++page) {
      const uintptr_t address = base + page * kPageBytes;
      if (address < begin || address >= end) continue;
      if (region.present[page / 64] >> page % 64 & 1) visit(region, page, address);
    }
  };
  const uintptr_t first = begin / kHugeBytes, last = (end - 1) / kHugeBytes;
  if (last - first > regions_.size()) {
    regions_.each([&](Region& region) {
      if (region.key > first && region.key - 1 <= last) in_region(region);
    });
    return;
  }
  for (uintptr_t number = first; number <= last; ++number) {
    if (Region* const region = regions_.find(number + 1)) in_region(*region);
  }
}

// The pages are present no more. Returns how many were.
size_t Pages::lose(uintptr_t begin, size_t bytes) {
  size_t lost = 0;
  each_present(begin, begin + bytes, [&](Region& region, size_t page, uintptr_t address) {
    region.present[page / 64] &= ~(uint64_t{1} << page % 64);
    gone_(address, kPageBytes);
    ++lost;
  });
  present_ -= std::min(present_, lost);
  return lost;
}

// --- calls ---

unsigned Pages::interrupt(const Caller& caller) const {
  unsigned interrupted = 0;
  for (unsigned i = 0; i < machine_->processors; ++i) {
    if (i == caller.processor || !caller.running[i]) continue;
    caller.interrupted(i, machine_->interrupt_take);
    ++interrupted;
  }
  return interrupted;
}

// The call took the address space's lock, did `work`, and interrupted others if pages went.
CallOutcome Pages::finish(const Caller& caller, Time work, size_t pages, bool exclusive) {
  const unsigned interrupts = pages == 0 ? 0 : interrupt(caller);
  Time start = std::max({caller.now, exclusive_until_, word_until_});
  if (exclusive) start = std::max(start, shared_until_);
  word_until_ = start + machine_->transfer_core;
  const Time end = start + work + machine_->unmap_page * pages +
                   machine_->interrupt_send * interrupts;
  (exclusive ? exclusive_until_ : shared_until_) =
      std::max(exclusive ? exclusive_until_ : shared_until_, end);
  const Time waited = start - caller.now;
  return {waited + end - start + machine_->system_call, waited, pages, interrupts};
}

CallOutcome Pages::map(const Caller& caller, uintptr_t begin, size_t bytes) {
  const size_t lost = lose(begin, bytes);
  erase(begin, begin + bytes);
  insert({begin, begin + bytes, 0, Policy::kFirstTouch, machine_->huge_pages_always});
  return finish(caller, machine_->system_call, lost, true);
}

CallOutcome Pages::unmap(const Caller& caller, uintptr_t begin, size_t bytes) {
  const size_t lost = lose(begin, bytes);
  erase(begin, begin + bytes);
  return finish(caller, machine_->system_call, lost, true);
}

CallOutcome Pages::protect(const Caller& caller, uintptr_t begin, size_t bytes) {
  size_t present = 0;
  each_present(begin, begin + bytes, [&](Region&, size_t, uintptr_t) { ++present; });
  return finish(caller, machine_->system_call, present, true);
}

CallOutcome Pages::discard(const Caller& caller, uintptr_t begin, size_t bytes) {
  return finish(caller, 0, lose(begin, bytes), false);
}

CallOutcome Pages::move(const Caller& caller, uintptr_t from, size_t from_bytes, uintptr_t to,
                        size_t to_bytes) {
  const unsigned range = range_after(from);
  const bool huge = range < count_ && ranges_[range].huge;
  if (from != to) {
    lose(to, to_bytes);
    erase(to, to + to_bytes);
    insert({to, to + to_bytes, 0, Policy::kFirstTouch, huge});
    for (size_t at = 0; at < std::min(from_bytes, to_bytes); at += kPageBytes) {
      const int node = node_of(from + at);
      if (node < 0) continue;
      set_present(to + at, static_cast<unsigned>(node));
      ++present_;
    }
    const size_t lost = lose(from, from_bytes);
    erase(from, from + from_bytes);
    return finish(caller, machine_->system_call, lost, true);
  }
  if (to_bytes < from_bytes) return unmap(caller, from + to_bytes, from_bytes - to_bytes);
  erase(from + from_bytes, from + to_bytes);
  if (to_bytes > from_bytes) {
    insert({from + from_bytes, from + to_bytes, 0, Policy::kFirstTouch, huge});
  }
  return finish(caller, machine_->system_call, 0, true);
}

CallOutcome Pages::barrier(const Caller& caller) {
  const unsigned interrupts = interrupt(caller);
  return {machine_->system_call + machine_->interrupt_send * interrupts, 0, 0, interrupts};
}

}  // namespace near::manycore
