// Model of node/purge_signal.h: threads leave work and ask, the purge thread looks and sleeps.
//
// Invariant: no request is lost: work that was left before `ask` is found before the purge thread
// sleeps without limit (else it would sleep for ever, a deadlock).
// Work is left as the library leaves it: in an inbox (heap/heap.h: receive), or under a lock
// (node/node.cc: give).
// Bound: 2 asking threads and the purge thread (heap/purge_thread.cc: run).
#include "node/purge_signal.h"

#include "runner.h"
#include "sync/inbox.h"
#include "sync/mutex.h"

namespace near::model {
namespace {

struct Item {
  Plain<Item*> next;
};

class AskAndWait : public rl::test_suite<AskAndWait, 3> {
 public:
  void before() {
    signal_.set_present(true);
    dirty_ = false;
  }

  void thread(unsigned index) {
    if (index == 0) {
      if (mutated("the work is left after the request")) signal_.ask();
      inbox_.push(&item_);
    } else if (index == 1) {
      const LockGuard guard(lock_);
      dirty_ = true;
    } else {
      return run();
    }
    if (!mutated("the work is left after the request") && !mutated("nobody asks")) signal_.ask();
  }

  void after() { expect(received_ && purged_, "work is left"); }

 private:
  void run() {
    while (true) {
      if (!mutated("what was asked is forgotten after the look")) signal_.begin_round();
      look();
      if (mutated("what was asked is forgotten after the look")) signal_.begin_round();
      if (received_ && purged_) return;
      signal_.wait(0);
    }
  }

  void look() {
    if (!inbox_.empty() && inbox_.take_all() != nullptr) received_ = true;
    const LockGuard guard(lock_);
    if (dirty_) purged_ = true;
  }

  PurgeSignal signal_;
  Inbox<Item, &Item::next> inbox_;
  Item item_;
  Mutex lock_{Rank::node};
  Plain<bool> dirty_;
  bool received_ = false;
  bool purged_ = false;
};

}  // namespace
}  // namespace near::model

int main(int count, char** arguments) {
  using namespace near::model;
  const Exploration explorations[] = {
      explore<AskAndWait>("ask and wait", Random{2'000'000}),
  };
  const near::Mutation mutations[] = {
      {"nobody asks"},
      {"nobody is woken"},
      {"the kernel does not look before it sleeps"},
      {"the work is left after the request"},
      {"what was asked is forgotten after the look"},
  };
  return run_models(count, arguments, explorations, mutations);
}
