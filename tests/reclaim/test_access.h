// Gives tests access to the parts of domains, tables and maps.
// Thread-safety: any thread of a test.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/scx.hpp"

namespace near::reclaim::impl {

struct TestAccess {
  template <class Scheme>
  static Core& core(domain<Scheme>& of) {
    return of.core_;
  }
  template <class Scheme>
  static Atomic<uint32_t>& records(domain<Scheme>& of) {
    return of.core_.record_count_;
  }
  template <class Scheme>
  static Record& first_record(domain<Scheme>& of) {
    return *of.core_.records.load(kAcquire);  // pairs: records
  }
  // The bytes that are in the reserve, credits, limbos and flights: the limit. Requires that no
  // other thread uses the domain.
  template <class Scheme>
  static int64_t account(domain<Scheme>& of) {
    const Core& core = of.core_;
    int64_t sum = core.reserve_ + static_cast<int64_t>(core.flights.counts.bytes());
    const Record* record = &first_record(of);
    for (; record != nullptr; record = record->next) {
      sum += record->limbo.credit + static_cast<int64_t>(record->limbo.bytes());
    }
    return sum;
  }
  // The number that record_epoch uses as the objects waiting in all records.
  template <class Scheme>
  static uint64_t garbage(domain<Scheme>& of) {
    return of.core_.garbage_;
  }

  template <class Node>
  static Atomic<uint64_t>& status(ScxTable<Node>& of, unsigned slot) {
    return of.at(slot).status_;
  }
  template <class Node>
  static size_t chunks(const ScxTable<Node>& of) {
    size_t chunks = 0;
    for (unsigned i = 0; i < ScxTable<Node>::kChunks; i++) chunks += of.chunk(i) != nullptr ? 1 : 0;
    return chunks;
  }

  // The same for a hash map.
  template <class Map>
  static bool is_claimed(const Map& of, size_t bucket) {
    return of.table_[bucket].state > Map::kLinked;
  }
  template <class Map>
  static Atomic<uint32_t>& growing(Map& of) {
    return of.table_.growing_;
  }
};

}  // namespace near::reclaim::impl
