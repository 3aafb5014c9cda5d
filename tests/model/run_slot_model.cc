// Model of heap/run_slot.h: the owner puts runs in and takes them out, while the purge thread
// empties the slot.
//
// Invariant: a run has one holder, which sees what the last one wrote; no run is lost; a run that
// the purge thread does not see wakes it.
// Bound: 1 owner with 2 runs and 3 steps, 1 purge thread with 2 rounds.
#include "heap/run_slot.h"
#include "runner.h"

namespace near::model {
namespace {

struct alignas(16) Run {
  uint32_t slices = 0;
  Plain<int> held;  // times that it was held: a race if two threads hold it
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
  Run runs_[2];
  Atomic<int> is_kept_[2];
};

// The flag of node/purge_signal.h: the purge thread clears it and looks; the owner puts a run in
// and wakes the thread if the flag is clear.
class NoRunIsMissed : public rl::test_suite<NoRunIsMissed, 2> {
 public:
  void before() {
    run_.slices = 1;
    work_.store(1, kRelaxed);  // relaxed: no threads yet
  }

  void thread(unsigned index) {
    if (index == 0) {
      slot_.put(run_);
      wakes_ = work_.load(kSeqCst) == 0 ? 1 : 0;  // pairs: purge-signal
    } else {
      work_.exchange(0, kSeqCst);  // pairs: purge-signal
      sees_ = slot_.slices() > 0 ? 1 : 0;
    }
  }

  void after() { expect(wakes_ + sees_ > 0, "a run stays, and the purge thread sleeps"); }

 private:
  RunSlot<Run> slot_;
  Run run_;
  Atomic<uint32_t> work_;
  Plain<int> wakes_;
  Plain<int> sees_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<OwnerAndPurgeThread>("owner and purge thread", Random{100'000}),
    explore<NoRunIsMissed>("no run is missed", Full{}),
};

const std::vector<Mutation> kMutations = {
    {"the run that was in is forgotten"},
    {"a run of any length is taken"},
    {"the put does not release", "run_slot.h", "::put", kSeqCst, kAcquire},
    {"the owner's take does not acquire", "run_slot.h", "::take(", kAcquire, kRelaxed},
    {"the put may come after the look at the flag", "run_slot.h", "::put", kSeqCst, kAcqRel},
    {"the look may come before the flag is cleared", "run_slot.h", "::slices", kSeqCst, kRelaxed},
};

}  // namespace near::model
