// The counts: for each region between two markers, each CPU and each memory node, the accesses
// to user addresses and their outcomes in the model of private caches.
//
// Counters only ever grow; a region's counts are their growth between its markers. So no counter
// is reset while its CPU is counting.
// Invariant: a CPU's numbers are written by that CPU alone; loads + stores of a region are exactly
// the accesses that its CPUs made while it was open.
// Thread-safety: count() only the CPU itself; everything else any thread, under the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "arguments.h"
#include "cache.h"
#include "node_map.h"
#include "page_set.h"
#include "page_tally.h"

namespace nearcount {

enum Event : unsigned { kLoads, kStores, kMisses, kBounces, kUpgrades, kEvents };
// Heap memory, or ranges that were excluded: stacks, images of programs and libraries.
enum Kind : unsigned { kHeap, kExcluded, kKinds };

struct Access {
  static constexpr uint64_t kNoValue = ~uint64_t{0};  // no RAM

  uint64_t address;  // of the access's first byte
  uint64_t value;    // QEMU's number for that byte's memory (see NodeMap)
  // The address and value of the last byte, which may be in another line or another page.
  uint64_t last_address;
  uint64_t last_value;
  bool is_store;
};

// Totals of one CPU, by kind, node (kUnknownNode is the last) and event.
using Totals = std::array<std::array<std::array<uint64_t, kEvents>, kNodes + 1>, kKinds>;

struct CpuCounts {
  Totals totals{};
  uint64_t small_pages = 0;  // distinct pages of the heap that it touched: 4 KiB, 2 MiB
  uint64_t huge_pages = 0;
};

struct Region {
  bool complete = false;  // false: the program ended before its end marker
  uint64_t excluded_pages = 0;
  uint64_t small_pages = 0;  // all CPUs together
  uint64_t huge_pages = 0;
  // Addresses of the heap pages that CPUs of other nodes accessed most, with the number of these
  // accesses, in descending order; at most so many.
  static constexpr size_t kRemotePages = 32;
  std::vector<std::pair<uint64_t, uint64_t>> remote_pages;
  std::vector<CpuCounts> cpus;
};

class Counter {
 public:
  explicit Counter(const Arguments& arguments);

  // True between the begin and end markers.
  bool is_counting() const { return counting_.load(std::memory_order_acquire); }  // pairs: region
  void count(unsigned cpu, const Access& access);

  // One call for each kind of marker.
  void program();
  void begin();
  void end();
  void exclude(uint64_t first, uint64_t last);
  void include(uint64_t first, uint64_t last);
  void calibrate(uint64_t value, uint64_t node);
  void here(unsigned cpu, uint64_t number, uint64_t node);
  // A marker that is invalid where it was executed.
  void malformed();

  size_t cpus() const { return cpus_.size(); }
  // All counts as JSON.
  std::string report(bool exited);

 private:
  // relaxed by its one writer; others read it between regions
  struct alignas(128) Cpu {
    unsigned node = kUnknownNode;
    std::array<std::atomic<uint64_t>, kKinds*(kNodes + 1) * kEvents> events{};
    std::atomic<uint64_t> small_pages{0};
    std::atomic<uint64_t> huge_pages{0};
    PageSet small;
    PageSet huge;
    PageTally remote;
  };

  static void add(std::atomic<uint64_t>& counter);
  static std::atomic<uint64_t>& event_of(Cpu& cpu, Kind kind, unsigned node, Event event);
  void count_line(unsigned cpu, Kind kind, uint64_t value, bool is_store);
  void count_page(Cpu& cpu, uint64_t address);

  // The caller holds the lock.
  bool is_range(uint64_t first, uint64_t last);
  Region totals() const;
  std::vector<std::pair<uint64_t, uint64_t>> remote_pages() const;
  void close(bool complete);

  const Arguments arguments_;
  std::vector<std::unique_ptr<Cpu>> cpus_;
  std::atomic<bool> counting_{false};
  NodeMap nodes_;
  CacheModel cache_;
  PageSet excluded_;
  PageSet small_pages_;  // all CPUs together
  PageSet huge_pages_;
  std::atomic<uint64_t> small_page_count_{0};
  std::atomic<uint64_t> huge_page_count_{0};

  std::mutex lock_;  // guards all below, and learning
  uint64_t excluded_pages_ = 0;
  uint64_t wrong_cpus_ = 0;
  uint64_t malformed_ = 0;
  Region before_;  // the totals when the open region began
  std::vector<Region> regions_;
};

}  // namespace nearcount
