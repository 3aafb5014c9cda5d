// What is counted of a thread's accesses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/memory.h"

namespace near::manycore {

struct Counts {
  uint64_t by_source[kSources];
  uint64_t coherence;  // accesses that another core's access made dear
  uint64_t transfers_allocator;  // of these, transfers to code of the allocator
  uint64_t atomics;
  uint64_t blocks;  // basic blocks
  uint64_t faults_small, faults_huge;
  Time waited_lines, waited_locks, waited_address_space, waited_processor;

  // Calls visit(name, member) for each.
  template <typename Visit>
  static void each(Visit visit);
  void add(const Counts& more, const Counts& less);
};

template <typename Visit>
void Counts::each(Visit visit) {
  visit("coherence", &Counts::coherence);
  visit("transfers_allocator", &Counts::transfers_allocator);
  visit("atomics", &Counts::atomics);
  visit("basic_blocks", &Counts::blocks);
  visit("faults_small", &Counts::faults_small);
  visit("faults_huge", &Counts::faults_huge);
  visit("waited_lines", &Counts::waited_lines);
  visit("waited_locks", &Counts::waited_locks);
  visit("waited_address_space", &Counts::waited_address_space);
  visit("waited_processor", &Counts::waited_processor);
}

inline void Counts::add(const Counts& more, const Counts& less) {
  for (size_t i = 0; i < kSources; ++i) by_source[i] += more.by_source[i] - less.by_source[i];
  each([&](const char*, uint64_t Counts::*member) {
    this->*member += more.*member - less.*member;
  });
}

}  // namespace near::manycore
