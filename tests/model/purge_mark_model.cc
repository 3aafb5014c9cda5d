// Model of node/purge_signal.h, PurgeMark: a thread sets its mark, leaves things where any thread
// may take them (in a depot), and clears its mark; the purge thread looks at the mark and then at
// the depot, and sleeps.
//
// Invariant: nothing is left while the purge thread sleeps without limit (else it would sleep for
// ever, a deadlock).
// Bound: 1 thread that leaves 2 things, and the purge thread.
#include "node/purge_signal.h"
#include "numbered_stack.h"
#include "runner.h"

namespace near::model {
namespace {

Witness left_by_marked("things left by a thread that the purge thread saw marked");
Witness left_by_unmarked("things found although no thread was marked");

class MarkAndLeave : public rl::test_suite<MarkAndLeave, 2> {
 public:
  void before() { signal_.set_present(true); }

  void thread(unsigned index) {
    if (index == 1) return run();
    for (uint32_t number = 1; number <= kThings; number++) {
      mark_.set(signal_);  // Magazines::mark_exchange
      depot_.push(number);
      if (number == kThings || choose(2) == 0) mark_.clear();  // Magazines::give_back_unused
    }
  }

  void after() { expect(found_ == kThings, "something is left"); }

 private:
  static constexpr uint32_t kThings = 2;

  // Mirrors heap/purge_thread.cc: run, and heap/give_back.cc: give_back_magazines.
  void run() {
    while (true) {
      signal_.begin_round();
      bool marked = !mutated("the mark is looked at after the depot") && mark_.is_set();
      while (depot_.pop() != 0) {
        found_++;
        (marked ? left_by_marked : left_by_unmarked).note();
      }
      if (mutated("the mark is looked at after the depot")) marked = mark_.is_set();
      if (found_ == kThings) return;
      signal_.wait(marked ? 100 : 0);
    }
  }

  PurgeSignal signal_;
  PurgeMark mark_;
  NumberedStack<kThings> depot_;
  uint32_t found_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<MarkAndLeave>("mark and leave", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"the mark is looked at after the depot"},
    {"a mark has no place in the one order", "purge_signal.h", "::set(", kSeqCst, kRelease},
    {"asking has no place in the one order", "purge_signal.h", "::ask", kSeqCst, kAcquire},
    {"the look has no place in the one order", "purge_signal.h", "::is_set", kSeqCst, kAcquire},
    {"a mark is cleared without a release", "purge_signal.h", "::clear", kRelease, kRelaxed},
    {"nobody is woken"},
};

}  // namespace near::model
