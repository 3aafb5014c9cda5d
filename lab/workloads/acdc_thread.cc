#include "acdc_thread.h"

#include <chrono>

namespace acdc {
namespace {

// Adds the time between its construction and its destruction to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(uint64_t& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    const auto passed = std::chrono::steady_clock::now() - start_;
    sum_ +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  uint64_t& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

void Totals::add(const Totals& other) {
  allocation_ns += other.allocation_ns;
  access_ns += other.access_ns;
  deallocation_ns += other.deallocation_ns;
  objects += other.objects;
  bytes += other.bytes;
  lists += other.lists;
  sets += other.sets;
  remote_frees += other.remote_frees;
  damaged_sets += other.damaged_sets;
  smallest = smallest == 0 ? other.smallest : std::min(smallest, other.smallest);
  largest = std::max(largest, other.largest);
}

Thread::Thread(const Options& options, size_t id)
    : options_(options), id_(id), random_(id + 1), order_random_(~id) {
  for (size_t i = 0; i <= options.liveness_high; ++i) quanta_.emplace_back(options);
}

size_t Thread::metadata_bytes() const {
  size_t bytes = 0;
  for (const Quantum& quantum : quanta_)
    bytes += quantum.objects.size() * sizeof(Object) + quantum.sets.size() * sizeof(Set);
  return bytes;
}

void Thread::make_set(Set& set, size_t quantum) {
  const size_t liveness = random_.between(options_.liveness_low, options_.liveness_high);
  // Every set ends with the run at the latest.
  set.last_quantum = std::min(quantum + liveness, options_.cycles) - 1;
  set.is_list = random_.below(100) < options_.list_percent;
  set.is_shared = random_.below(100) < options_.shared_percent;
  set.readers.store(set.is_shared ? options_.threads : 1, std::memory_order_relaxed);
  set.tag = static_cast<uint16_t>(++tags_ * options_.threads + id_);
  const size_t exponent = random_.between(options_.min_exponent, options_.max_exponent - 1);
  const size_t size = (size_t{1} << exponent) + random_.below(size_t{1} << exponent);
  set.count = options_.objects_of_a_set(exponent, liveness);
  set.objects[0].block.size = size;
}

void Thread::allocate(workload::Worker& worker, size_t quantum) {
  Quantum& mine = quanta_[quantum % quanta_.size()];
  mine.set_count = 0;
  size_t objects = 0;
  for (size_t left = options_.quantum; left != 0;) {
    Set& set = mine.sets[mine.set_count++];
    set.objects = &mine.objects[objects];
    make_set(set, quantum);
    const size_t size = set.objects[0].block.size;
    set.count = std::min(set.count, (left + size - 1) / size);
    left -= std::min(left, set.count * size);
    objects += set.count;
    {
      const Stopwatch watch(totals_.allocation_ns);
      for (size_t i = 0; i < set.count; ++i) set.objects[i].block = worker.allocate(size);
    }
    const Stopwatch watch(totals_.access_ns);
    set.link();
    const size_t smallest = totals_.smallest == 0 ? size : std::min(totals_.smallest, size);
    totals_.smallest = smallest;
    totals_.largest = std::max(totals_.largest, size);
    totals_.objects += set.count;
    totals_.bytes += set.count * size;
    totals_.lists += set.is_list;
    ++totals_.sets;
  }
}

void Thread::read_and_free(workload::Worker& worker, std::vector<Thread>& all, size_t quantum) {
  const size_t first = order_random_.below(all.size());
  const size_t oldest = quantum - std::min(quantum, options_.liveness_high - 1);
  for (size_t i = 0; i < all.size(); ++i) {
    Thread& owner = all[(first + i) % all.size()];
    for (size_t made = oldest; made <= quantum; ++made) read_sets_of(worker, owner, made, quantum);
  }
}

void Thread::read_sets_of(workload::Worker& worker, Thread& owner, size_t made, size_t quantum) {
  Quantum& quantum_sets = owner.quanta_[made % quanta_.size()];
  for (size_t i = 0; i < quantum_sets.set_count; ++i) {
    Set& set = quantum_sets.sets[i];
    if (set.last_quantum < quantum || (!set.is_shared && &owner != this)) continue;
    {
      const Stopwatch watch(totals_.access_ns);
      totals_.damaged_sets += set.read() != set.count;
    }
    if (set.last_quantum != quantum) continue;
    // acq_rel: the last reader sees everything that the other readers did before
    if (set.readers.fetch_sub(1, std::memory_order_acq_rel) == 1)
      free_set(worker, set, &owner != this);
  }
}

void Thread::free_set(workload::Worker& worker, Set& set, bool is_remote) {
  if (is_remote) totals_.remote_frees += set.count;
  {
    const Stopwatch watch(totals_.access_ns);
    set.unlink();
  }
  const Stopwatch watch(totals_.deallocation_ns);
  for (size_t i = 0; i < set.count; ++i) worker.release(set.objects[i].block);
}

}  // namespace acdc
