// Model of the word of a background reclaimer (reclaim/reclaimer_word.h), on a futex that waits and
// wakes as the kernel's does. The thread's loop mirrors Background::work and rest.
//
// Invariants: the thread ends once it is told to stop, though no pause ever ends by itself (a lost
// wake would be a deadlock); it sees what was written before the stop; and if a worker woke it, it
// sees what the worker wrote before.
// Bound: 3 threads: the reclaimer, a worker that wakes it twice, a thread that stops it.
#include "reclaim/reclaimer_word.h"
#include "runner.h"

namespace near::model {
namespace {

using reclaim::impl::ReclaimerWord;

Witness sleeps_ended("sleeps that a worker or the stop ended");
Witness woken("rounds of a thread that was woken");
Witness stopped_at_work("stops that met the thread at work");

class Reclaims : public rl::test_suite<Reclaims, 3> {
 public:
  void before() {
    expect(ReclaimerWord(word_).begin(), "a word that has no thread is taken");
    expect(!ReclaimerWord(word_).begin(), "a second thread begins");
    work_ = 0;
    last_ = 0;
  }

  void thread(unsigned index) {
    if (index == 0) {
      reclaim();
    } else if (index == 1) {
      wake_with_work();
    } else {
      last_ = 1;
      ReclaimerWord(word_).stop();
    }
  }

 private:
  void reclaim() {
    ReclaimerWord word(word_);
    bool rests = choose(2) == 0;
    while (!word.is_stopping()) {
      if (rests) {
        word.rest(UINT32_MAX);
        rests = false;
        continue;
      }
      const bool was_woken = word.sleep(UINT32_MAX);
      sleeps_ended.note();
      if (!was_woken || word.is_stopping()) continue;
      woken.note();
      expect(work_ == 1, "a woken thread does not see the work");
      rests = choose(2) == 0;
    }
    stopped_at_work.note();
    expect(last_ == 1, "the stop hides what was written before it");
  }

  void wake_with_work() {
    work_ = 1;
    for (int i = 0; i < 2; i++) ReclaimerWord(word_).wake();
  }

  Atomic<uint32_t> word_{0};
  Plain<uint32_t> work_;
  Plain<uint32_t> last_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Reclaims>("reclaims", Bounded{3}),
    explore<Reclaims>("reclaims", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"a wake does not release", "reclaimer_word.h", "::change", kRelease, kRelaxed},
    {"a stop does not release", "reclaimer_word.h", "::stop", kRelease, kRelaxed},
    {"the thread does not acquire what it is told", "reclaimer_word.h", "::is_stopping", kAcquire,
     kRelaxed},
    {"nobody is woken"},
    {"the kernel does not look before it sleeps"},
};

}  // namespace near::model
