// Model of node/purge_signal.h: threads leave work and ask, the purge thread looks and sleeps; a
// thread that leaves tells it to end.
//
// Invariants: no request is lost: the purge thread finds work left before `ask` before it sleeps
// without limit (else it would sleep for ever, a deadlock). Once told to end, it never sleeps,
// whatever other requests come, and sees what the thread that told it wrote before.
// Work is left as the library leaves it: in an inbox (heap/heap.h: receive), or under a lock
// (node/node.cc: give).
// Bound: 2 asking threads, or one that asks and one that stops, and the purge thread
// (heap/purge_thread.cc: run, stop). A pause lasts for ever here, so an order to end that does not
// interrupt it is a deadlock.
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
  // Mirrors heap/purge_thread.cc: run.
  void run() {
    while (true) {
      if (!mutated("what was asked is forgotten after the look")) signal_.begin_round();
      const bool waiting = look();
      if (mutated("what was asked is forgotten after the look")) signal_.begin_round();
      if (received_ && purged_) return;
      signal_.wait(waiting ? 100 : 0);
    }
  }

  // Mirrors heap/registry.cc: clean_heaps, then Node::purge. An owner that seems awake empties its
  // inbox itself; the purge thread then knows that the inbox is not empty.
  bool look() {
    const bool asleep = choose(2) == 0;
    if (asleep && inbox_.take_all() != nullptr) received_ = true;
    const bool waiting = !inbox_.empty();
    const LockGuard guard(lock_);
    if (dirty_) purged_ = true;
    return waiting;
  }

  PurgeSignal signal_;
  Inbox<Item, &Item::next> inbox_;
  Item item_;
  Mutex lock_{Rank::node};
  Plain<bool> dirty_;
  bool received_ = false;
  bool purged_ = false;
};

class AskAndStop : public rl::test_suite<AskAndStop, 3> {
 public:
  void before() {
    signal_.set_present(true);
    last_words_ = false;
  }

  void thread(unsigned index) {
    if (index == 0) return signal_.ask();
    if (index == 2) return run();
    last_words_ = true;
    signal_.stop();
  }

  void after() { expect(ended_, "it did not end"); }

 private:
  // Mirrors heap/purge_thread.cc: run.
  void run() {
    while (true) {
      if (!mutated("what was asked is forgotten last")) signal_.begin_round();
      if (signal_.stopping()) break;
      if (choose(2) == 0) signal_.pause(kForEver);
      if (signal_.stopping()) break;
      if (mutated("what was asked is forgotten last")) signal_.begin_round();
      signal_.wait(0);
    }
    expect(last_words_, "it ended without having been told");
    ended_ = true;
  }

  static constexpr uint32_t kForEver = UINT32_MAX;

  PurgeSignal signal_;
  Plain<bool> last_words_;
  bool ended_ = false;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<AskAndWait>("ask and wait", Random{2'000'000}),
    explore<AskAndStop>("ask and stop", Bounded{3}),
    explore<AskAndStop>("ask and stop", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"nobody asks"},
    {"nobody is woken"},
    {"the kernel does not look before it sleeps"},
    {"the work is left after the request"},
    {"what was asked is forgotten after the look"},
    {"what was asked is forgotten last"},
    {"the order to end is not released", "purge_signal.h", "::stop()", kRelease, kRelaxed},
    {"the order to end is not acquired", "purge_signal.h", "::stopping", kAcquire, kRelaxed},
    {"a push has no place in the one order", "inbox.h", "::push_chain", kSeqCst, kAcqRel},
    {"asking has no place in the one order", "purge_signal.h", "::ask", kSeqCst, kAcquire},
    {"forgetting has no place in the one order", "purge_signal.h", "::begin_round", kSeqCst,
     kAcqRel},
    {"the look has no place in the one order", "inbox.h", "::empty", kSeqCst, kAcquire},
};

}  // namespace near::model
