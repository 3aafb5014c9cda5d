// Model of heap/run_slot.h and heap/run_slots.h: the owner puts runs in and takes them out, while
// the purge thread empties the slots, or takes what was not used for a round.
//
// Invariant: a run has one holder, which sees what the last one wrote; no run is lost; a run that
// the purge thread does not see wakes it.
// Bound: 1 owner with 2 runs and 3 steps in one slot, or 3 runs and 5 steps in all; 1 purge thread
// with 2 rounds.
#include <new>

#include "base/bits.h"
#include "heap/run_slots.h"
#include "runner.h"

namespace near::model {
namespace {

struct alignas(64) Run {
  uint32_t slices = 0;
  Plain<int> held;  // times that it was held: a race if two threads hold it
};

// Runs where their addresses have as many zero bits as they need, whatever the object's own are.
template <unsigned count>
class Runs {
 public:
  Runs() {
    for (unsigned i = 0; i < count; i++) new (&(*this)[i]) Run;
  }
  ~Runs() {
    for (unsigned i = 0; i < count; i++) (*this)[i].~Run();
  }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  Run& operator[](unsigned i) {
    return reinterpret_cast<Run*>(align_up(reinterpret_cast<uintptr_t>(room_), alignof(Run)))[i];
  }

 private:
  unsigned char room_[(count + 1) * sizeof(Run)];
};

class OwnerAndPurgeThread : public rl::test_suite<OwnerAndPurgeThread, 2> {
 public:
  void before() {
    for (unsigned i = 0; i < 2; i++) {
      runs_[i].slices = i + 1;
      runs_[i].held = 0;
      is_kept_[i].store(0, kRelaxed);  // relaxed: no threads yet
    }
  }

  void thread(unsigned index) {
    if (index == 0) return own();
    for (int round = 0; round < 2; round++) {
      if (Run* run = slot_.take()) hold(*run);
    }
  }

  // What is in the slot and what was taken out are all the runs.
  void after() {
    if (Run* run = slot_.take()) hold(*run);
    for (auto& kept : is_kept_) {
      expect(kept.load(kRelaxed) == 0, "a run is lost");  // relaxed: the threads have ended
    }
  }

 private:
  // The holder gives the run to its shard, or hands it out.
  void hold(Run& run) {
    run.held = run.held + 1;
    is_kept_[run.slices - 1].store(0, kRelaxed);  // relaxed: read after the threads have ended
  }

  void put(unsigned number) {
    runs_[number].held = runs_[number].held + 1;
    is_kept_[number].store(1, kRelaxed);  // relaxed: as above
    Run* before = slot_.put(runs_[number]);
    if (mutated("the run that was in is forgotten")) return;
    if (before != nullptr) hold(*before);
  }

  void own() {
    put(0);
    if (choose(2) == 0) {
      Run* run = mutated("a run of any length is taken") ? slot_.take() : slot_.take(2);
      expect(run == nullptr, "a run of another length was taken");
    }
    put(1);
    if (Run* run = slot_.take(2)) {
      hold(*run);
      put(1);
    }
  }

  RunSlot<Run> slot_;
  Runs<2> runs_;
  Atomic<int> is_kept_[2];
};

// Three runs of one length, whose row is open: two lie in the row, one in the common slot.
class Rows : public rl::test_suite<Rows, 2> {
 public:
  void before() {
    for (unsigned i = 0; i < kCount; i++) {
      runs_[i].held = 0;
      runs_[i].slices = 1;
      is_kept_[i].store(0, kRelaxed);  // relaxed: no threads yet
    }
    runs_[kCount].slices = RunSlots<Run>::kMostSlices;
    for (int i = 0; i < 4; i++) {
      slots_.put(runs_[0]);
      slots_.put(runs_[kCount]);
      slots_.take(RunSlots<Run>::kMostSlices);
      slots_.count_missed(1);
    }
  }

  void thread(unsigned index) {
    if (index == 0) return own();
    for (int round = 0; round < 2; round++) {
      slots_.take_unused([this](Run& run) { hold(run); });
    }
    if (choose(2) == 0) {
      while (Run* run = slots_.take()) hold(*run);
    }
  }

  void after() {
    while (Run* run = slots_.take()) hold(*run);
    for (auto& kept : is_kept_) {
      expect(kept.load(kRelaxed) == 0, "a run is lost");  // relaxed: the threads have ended
    }
  }

 private:
  static constexpr unsigned kCount = 3;

  unsigned number_of(const Run& run) { return static_cast<unsigned>(&run - &runs_[0]); }

  void hold(Run& run) {
    run.held = run.held + 1;
    if (mutated("a run that leaves stays noted")) return;
    is_kept_[number_of(run)].store(0, kRelaxed);  // relaxed: read after the threads have ended
  }

  void put(Run& run) {
    run.held = run.held + 1;
    is_kept_[number_of(run)].store(1, kRelaxed);  // relaxed: as above
    if (Run* before = slots_.put(run)) hold(*before);
  }

  void own() {
    for (unsigned i = 0; i < kCount; i++) put(runs_[i]);
    if (Run* run = slots_.take(1)) {
      hold(*run);
      put(*run);
    }
    if (Run* run = slots_.take(1)) hold(*run);
  }

  RunSlots<Run> slots_;
  Runs<4> runs_;  // the last one is longer, and only opens the row
  Atomic<int> is_kept_[kCount];
};

// The flag of node/purge_signal.h: the purge thread clears it and looks; the owner puts a run in
// and wakes the thread if the flag is clear.
class NoRunIsMissed : public rl::test_suite<NoRunIsMissed, 2> {
 public:
  void before() {
    runs_[0].slices = 1;
    work_.store(1, kRelaxed);  // relaxed: no threads yet
  }

  void thread(unsigned index) {
    if (index == 0) {
      slot_.put(runs_[0]);
      wakes_ = work_.load(kSeqCst) == 0 ? 1 : 0;  // pairs: purge-signal
    } else {
      work_.exchange(0, kSeqCst);  // pairs: purge-signal
      sees_ = slot_.slices() > 0 ? 1 : 0;
    }
  }

  void after() { expect(wakes_ + sees_ > 0, "a run stays, and the purge thread sleeps"); }

 private:
  RunSlot<Run> slot_;
  Runs<1> runs_;
  Atomic<uint32_t> work_;
  Plain<int> wakes_;
  Plain<int> sees_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<OwnerAndPurgeThread>("owner and purge thread", Random{100'000}),
    explore<Rows>("rows and rounds", Random{100'000}),
    explore<NoRunIsMissed>("no run is missed", Full{}),
};

const std::vector<Mutation> kMutations = {
    {"the run that was in is forgotten"},
    {"a run of any length is taken"},
    {"a run that leaves stays noted"},
    {"the put does not release", "run_slot.h", "::put", kSeqCst, kAcquire},
    {"the owner's take does not acquire", "run_slot.h", "::take(", kAcquire, kRelaxed},
    {"a round does not acquire", "run_slot.h", "::take_unused", kAcquire, kRelaxed},
    {"the put may come after the look at the flag", "run_slot.h", "::put", kSeqCst, kAcqRel},
    {"the look may come before the flag is cleared", "run_slot.h", "::slices", kSeqCst, kRelaxed},
};

}  // namespace near::model
