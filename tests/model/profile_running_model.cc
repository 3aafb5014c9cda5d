// Model of profile/running.h: the profiler starts, and may stop, while a thread publishes its heap.
//
// Invariant: at the end the heap counts if and only if the profiler runs; the profiler touches no
// heap that it does not see whole.
// Bound: 2 heaps, 1 thread that starts and perhaps stops.
#include "profile/running.h"
#include "runner.h"
#include "sync/mutex.h"

namespace near::model {
namespace {

constexpr unsigned kHeaps = kThreads - 1;

class StartWhilePublishing : public FencedSuite<StartWhilePublishing> {
 public:
  void before() {
    for (Heap& heap : heaps_) heap.counting.store(false, kRelaxed);  // relaxed: no threads yet
    for (auto& each : published_) each.store(false, kRelaxed);       // relaxed: as above
  }

  void thread(unsigned index) {
    if (index > 0) return publish(index - 1);
    start();
    if (choose(2) == 0) stop();
  }

  void after() {
    for (Heap& heap : heaps_) {
      const bool counts = heap.counting.load(kRelaxed);  // relaxed: the threads have ended
      expect(counts == flag_.is_set(), "the heap does not follow the profiler");
    }
  }

 private:
  struct Heap {
    Plain<int> contents;
    Atomic<bool> counting;
  };

  // Mirrors profile/profiler.cc: set_all_counting.
  void set_all(bool on) {
    for (unsigned i = 0; i < kHeaps; i++) {
      if (!published_[i].load(kAcquire)) continue;  // pairs: heap-made
      expect(heaps_[i].contents == 1, "the heap is not whole");
      heaps_[i].counting.store(on, kRelaxed);  // relaxed: as Heap::class_of_small
    }
  }

  // Mirrors profile/profiler.cc: start.
  void start() {
    const LockGuard guard(lock_);
    if (mutated("heaps are visited before the flag is set")) set_all(true);
    flag_.set();
    if (!mutated("heaps are visited before the flag is set")) set_all(true);
  }

  // Mirrors profile/profiler.cc: stop.
  void stop() {
    const LockGuard guard(lock_);
    flag_.clear();
    set_all(false);
  }

  // Mirrors heap/registry.cc: make_heap, and profile/profiler.cc: look_at_new_heap.
  void publish(unsigned number) {
    heaps_[number].contents = 1;
    if (mutated("the heap is published after the look")) return look_first(number);
    published_[number].store(true, kRelease);  // pairs: heap-made
    if (flag_.look_after_publishing()) count(number);
  }

  void look_first(unsigned number) {
    const bool running = flag_.look_after_publishing();
    published_[number].store(true, kRelease);  // pairs: heap-made
    if (running) count(number);
  }

  void count(unsigned number) {
    if (mutated("the thread does not take the lock")) {
      if (flag_.is_set()) heaps_[number].counting.store(true, kRelaxed);  // relaxed: a fault
      return;
    }
    const LockGuard guard(lock_);
    const bool running = flag_.is_set() || mutated("the thread does not look again");
    if (running) heaps_[number].counting.store(true, kRelaxed);  // relaxed: as above
  }

  profile::RunningFlag flag_;
  Mutex lock_{Rank::profile};
  Heap heaps_[kHeaps];
  Atomic<bool> published_[kHeaps];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<StartWhilePublishing>("start while publishing", Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    {"heaps are visited before the flag is set"},
    {"the heap is published after the look"},
    {"the thread does not take the lock"},
    {"the thread does not look again"},
    {"the profiler sets the flag without a fence", "running.h", "::set", kSeqCst, kRelaxed},
    {"the thread looks without a fence", "running.h", "::look_after_", kSeqCst, kRelaxed},
};

}  // namespace near::model
