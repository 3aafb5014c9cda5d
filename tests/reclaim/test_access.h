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
