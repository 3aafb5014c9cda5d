#include "counter.h"

#include <algorithm>
#include <map>

namespace nearcount {
namespace {

constexpr uint64_t kMostExcludedBytes = uint64_t{1} << 36;  // a range of more is a mistake

void subtract(CpuCounts& counts, const CpuCounts& before) {
  for (unsigned kind = 0; kind < kKinds; ++kind) {
    for (unsigned node = 0; node <= kNodes; ++node) {
      for (unsigned event = 0; event < kEvents; ++event) {
        counts.totals[kind][node][event] -= before.totals[kind][node][event];
      }
    }
  }
  counts.small_pages -= before.small_pages;
  counts.huge_pages -= before.huge_pages;
}

}  // namespace

Counter::Counter(const Arguments& arguments)
    : arguments_(arguments), cache_(arguments.node_of_cpu.size(), arguments.cache) {
  for (const unsigned node : arguments.node_of_cpu) {
    cpus_.push_back(std::make_unique<Cpu>());
    cpus_.back()->node = node;
  }
}

void Counter::add(std::atomic<uint64_t>& counter) {
  // relaxed: one writer; a reader compares the value with an earlier reading
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

std::atomic<uint64_t>& Counter::event_of(Cpu& cpu, Kind kind, unsigned node, Event event) {
  return cpu.events[(kind * (kNodes + 1) + node) * kEvents + event];
}

void Counter::count(unsigned cpu, const Access& access) {
  Cpu& self = *cpus_[cpu];
  const Kind kind = excluded_.has(page_of(access.address)) ? kExcluded : kHeap;
  const unsigned node = nodes_.node_of(access.value);
  add(event_of(self, kind, node, access.is_store ? kStores : kLoads));
  if (kind == kHeap) {
    if (node != self.node && node != kUnknownNode) self.remote.add(page_of(access.address));
    count_page(self, access.address);
    if (page_of(access.last_address) != page_of(access.address)) {
      count_page(self, access.last_address);
    }
  }
  if (access.value >= NodeMap::kEnd) return;
  count_line(cpu, kind, access.value, access.is_store);
  const bool is_second = access.last_value < NodeMap::kEnd &&
                         cache_.line_of(access.last_value) != cache_.line_of(access.value);
  if (is_second) count_line(cpu, kind, access.last_value, access.is_store);
}

void Counter::count_line(unsigned cpu, Kind kind, uint64_t value, bool is_store) {
  const Outcome outcome = cache_.access(cpu, value, is_store);
  const unsigned node = nodes_.node_of(value);
  Cpu& self = *cpus_[cpu];
  if (outcome.miss) add(event_of(self, kind, node, kMisses));
  if (outcome.bounce) add(event_of(self, kind, node, kBounces));
  if (outcome.upgrade) add(event_of(self, kind, node, kUpgrades));
}

void Counter::count_page(Cpu& cpu, uint64_t address) {
  const uint64_t small = page_of(address);
  if (!cpu.small.add(small)) return;
  add(cpu.small_pages);
  // relaxed: a sum; readers compare it with an earlier reading
  if (small_pages_.add(small)) small_page_count_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t huge = address >> kHugePageBits;
  if (!cpu.huge.add(huge)) return;
  add(cpu.huge_pages);
  // relaxed: as above
  if (huge_pages_.add(huge)) huge_page_count_.fetch_add(1, std::memory_order_relaxed);
}

void Counter::program() {
  const std::lock_guard hold(lock_);
  if (counting_.load(std::memory_order_acquire)) close(false);  // pairs: region
  excluded_.clear();
  excluded_pages_ = 0;
}

void Counter::begin() {
  const std::lock_guard hold(lock_);
  if (counting_.load(std::memory_order_acquire)) {  // pairs: region
    ++malformed_;
    return;
  }
  nodes_.close();
  cache_.clear();
  for (const auto& cpu : cpus_) {
    cpu->small.clear();
    cpu->huge.clear();
    cpu->remote.clear();
  }
  small_pages_.clear();
  huge_pages_.clear();
  before_ = totals();
  counting_.store(true, std::memory_order_release);  // pairs: region
}

void Counter::end() {
  const std::lock_guard hold(lock_);
  if (!counting_.load(std::memory_order_acquire)) {  // pairs: region
    ++malformed_;
    return;
  }
  close(true);
}

void Counter::close(bool complete) {
  counting_.store(false, std::memory_order_release);  // pairs: region
  Region region = totals();
  for (size_t i = 0; i < region.cpus.size(); ++i) subtract(region.cpus[i], before_.cpus[i]);
  region.small_pages -= before_.small_pages;
  region.huge_pages -= before_.huge_pages;
  region.complete = complete;
  region.remote_pages = remote_pages();
  regions_.push_back(std::move(region));
}

std::vector<std::pair<uint64_t, uint64_t>> Counter::remote_pages() const {
  std::map<uint64_t, uint64_t> numbers;
  for (const auto& cpu : cpus_) {
    cpu->remote.each([&](uint64_t page, uint64_t number) { numbers[page] += number; });
  }
  std::vector<std::pair<uint64_t, uint64_t>> pages(numbers.begin(), numbers.end());
  std::sort(pages.begin(), pages.end(), [](const auto& one, const auto& other) {
    return one.second != other.second ? one.second > other.second : one.first < other.first;
  });
  pages.resize(std::min(pages.size(), Region::kRemotePages));
  for (auto& page : pages) page.first <<= kPageBits;
  return pages;
}

Region Counter::totals() const {
  Region now;
  now.excluded_pages = excluded_pages_;
  // relaxed: the counts from before the marker are visible, because the guest itself ordered them
  // before it executed the marker
  now.small_pages = small_page_count_.load(std::memory_order_relaxed);
  now.huge_pages = huge_page_count_.load(std::memory_order_relaxed);
  for (const auto& cpu : cpus_) {
    CpuCounts& counts = now.cpus.emplace_back();
    counts.small_pages = cpu->small_pages.load(std::memory_order_relaxed);  // relaxed: as above
    counts.huge_pages = cpu->huge_pages.load(std::memory_order_relaxed);    // relaxed: as above
    for (unsigned kind = 0; kind < kKinds; ++kind) {
      for (unsigned node = 0; node <= kNodes; ++node) {
        for (unsigned event = 0; event < kEvents; ++event) {
          const auto& counter =
              event_of(*cpu, static_cast<Kind>(kind), node, static_cast<Event>(event));
          // relaxed: as above
          counts.totals[kind][node][event] = counter.load(std::memory_order_relaxed);
        }
      }
    }
  }
  return now;
}

bool Counter::is_range(uint64_t first, uint64_t last) {
  if (first <= last && last < kUserEnd && last - first < kMostExcludedBytes) return true;
  ++malformed_;
  return false;
}

void Counter::exclude(uint64_t first, uint64_t last) {
  const std::lock_guard hold(lock_);
  if (!is_range(first, last)) return;
  for (uint64_t page = page_of(first); page <= page_of(last); ++page) {
    if (excluded_.add(page)) ++excluded_pages_;
  }
}

void Counter::include(uint64_t first, uint64_t last) {
  const std::lock_guard hold(lock_);
  if (!is_range(first, last)) return;
  for (uint64_t page = page_of(first); page <= page_of(last); ++page) {
    if (excluded_.remove(page)) --excluded_pages_;
  }
}

void Counter::calibrate(uint64_t value, uint64_t node) {
  const std::lock_guard hold(lock_);
  nodes_.learn(value, static_cast<unsigned>(node));
}

void Counter::here(unsigned cpu, uint64_t number, uint64_t node) {
  const std::lock_guard hold(lock_);
  if (number != cpu || cpus_[cpu]->node != node) ++wrong_cpus_;
}

void Counter::malformed() {
  const std::lock_guard hold(lock_);
  ++malformed_;
}

}  // namespace nearcount
