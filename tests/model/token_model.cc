// Model of Token EBR (reclaim/impl/token.hpp) with every way to pass, both kinds of fence, threads
// that attach late, leave, or stay and do nothing, and rounds that wrap. Mirrors token::enter of
// reclaim/schemes.hpp, receive and check_token of reclaim/token.cc, attach, park, adopt_parked and
// take_idle of reclaim/core.cc, wait_for_rounds of waiting.cc. The model owner_lock covers an idle
// thread that goes on in its limbo.
//
// Invariant: an object is freed after the last use by every thread that could see it.
// Bound: 3 threads that attach while the others run; one begins 3 operations and reads, one unlinks
// and begins 4 more or leaves, one begins 2 that read or unlink, and leaves; 3 objects.
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/token.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness tokens_received("receipts of the token");
Witness receipts_void("receipts by a thread that was skipped at once");
Witness threads_skipped("tokens moved past idle threads");
Witness objects_adopted("objects adopted from a thread that left");
Witness idle_objects_taken("objects taken from an idle thread");
Witness rounds_wrapped("objects adopted after the round wrapped");
Witness objects_awaited("objects freed after synchronize");

enum Pass : uint32_t { after_free, before_free, while_freeing, kPasses };

struct Record {
  TokenWords token;
  Atomic<uint32_t> attached{kAttached};
  Plain<uint32_t> index;
  Plain<Record*> next;
  Limbo limbo;
  Plain<uint64_t> parked_at;
  Atomic<uint32_t> idle{0};
};

// Rounds have 40 bits.
constexpr uint64_t kLastRound = (uint64_t{1} << (64 - TokenRing::kIndexBits)) - 1;
constexpr uint32_t kIdle = kOffline + 1;  // here: attached, in no operation, done with its limbo

class Reclaiming {
 protected:
  Reclaiming()
      : asymmetric_(choose(2) == 1),
        pass_(choose(kPasses)),
        first_round_(choose(2) == 0 ? 1 : kLastRound - choose(3)),
        ring_(first_round_),
        source_(&objects_[0]) {
    for (Object& each : objects_) each.make();
  }

  void attach(Record& record) {
    record.limbo.init(record.token.passes);
    record.index = made_.fetch_add(1, kRelaxed);
    add_record(records_, record);
    if (!mutated("a thread attaches without a fence")) heavy_fence(asymmetric_);
  }

  // token::enter, and leave
  void begin(Record& record) {
    activate(record.token, asymmetric_);
    check(record);
  }
  void end(Record& record) { deactivate(record.token); }

  // check_token
  void check(Record& record) {
    if (const auto word = ring_.at(record.index)) {
      receive(record, *word);
    } else if (choose(2) == 1) {
      skip_idle(record);
    }
  }

  bool pass_on(Record& record, uint64_t word) {
    return ring_.pass(records_, record, word, asymmetric_).has_value();
  }

  void receive(Record& record, uint64_t word) {
    tokens_received.note();
    if (pass_ != after_free && !pass_on(record, word)) {
      receipts_void.note();
      if (!mutated("a receipt counts though the thread was skipped")) return;
    }
    record.limbo.advance(record.token.passes + 1, mutated("one bag") ? 1 : kTokenBags);
    for (Record* each = records_.load(kAcquire); each != nullptr; each = each->next) {
      adopt(*each);
      take_idle(*each, record);
    }
    if (pass_ == while_freeing) {
      if (const auto again = ring_.at(record.index)) pass_on(record, *again);
    }
    if (pass_ == after_free && !pass_on(record, word)) {
      receipts_void.note();
      if (!mutated("a receipt counts though the thread was skipped")) return;
    }
    record.token.passes++;
  }

  void skip_idle(Record& record) {
    const uint64_t before = ring_.word();
    (void)ring_.skip_idle(records_, record, asymmetric_);
    if (ring_.word() != before) threads_skipped.note();
  }

  void park(Record& record) {
    heavy_fence(asymmetric_);
    if (const auto word = ring_.at(record.index)) pass_on(record, *word);
    record.parked_at = ring_.round();
    record.attached.store(kFree, kRelease);
  }

  // Core::has_passed
  bool has_passed(uint64_t then, uint64_t distance) {
    if (mutated("rounds are compared as if they did not wrap")) {
      return ring_.round() >= ((then + distance) & kLastRound);
    }
    return TokenRing::has_passed(ring_.round(), then, distance);
  }

  void adopt(Record& record) {
    uint32_t expected = kFree;
    if (!record.attached.compare_exchange_strong(expected, kClaimed, kAcquire, kRelaxed)) return;
    const uint64_t grace = mutated("what is left waits for two rounds") ? 2 : kGrace;
    const bool is_safe = has_passed(record.parked_at, grace);
    if (is_safe && record.limbo.count() > 0) {
      objects_adopted.note();
      if (first_round_ != 1 && ring_.round() < kLastRound / 2) rounds_wrapped.note();
    }
    if (is_safe) record.limbo.free_all();
    record.attached.store(kFree, kRelease);
  }

  // This exchange replaces the lock of the limbo, which a thread that stays idle has released.
  void take_idle(Record& record, Record& into) {
    uint32_t expected = kIdle;
    if (!record.idle.compare_exchange_strong(expected, kClaimed, kAcquire, kRelaxed)) return;
    if (record.limbo.count() > 0) idle_objects_taken.note();
    if (mutated("what an idle thread retired counts as safe")) {
      record.limbo.free_all();
    } else {
      record.limbo.give_all_held(into.limbo);
    }
    record.idle.store(kIdle, kRelease);
  }

  // Core::wait_for_rounds
  void synchronize(Record& me) {
    if (!mutated("synchronize begins without a fence")) heavy_fence(asymmetric_);
    const uint64_t start = ring_.round();
    const uint64_t wait = mutated("synchronize waits for two rounds") ? 2 : kGrace;
    if (choose(2) == 0) reader_went_on_.wait();
    while (!has_passed(start, wait)) {
      if (const auto word = ring_.at(me.index)) {
        pass_on(me, *word);
      } else {
        (void)ring_.skip_idle(records_, me, asymmetric_);
        rl::yield(1, debug_info(Place::current()));
      }
    }
  }

  void read() const { source_.load(kAcquire)->touch(); }
  Object* unlink(uint32_t fresh) { return source_.exchange(&objects_[fresh], kAcqRel); }

  void read_once(Record& record) {
    begin(record);
    read();
    end(record);
  }
  void replace(Record& record, uint32_t fresh) {
    begin(record);
    record.limbo.push(unlink(fresh));
    end(record);
  }

  const bool asymmetric_;
  const uint32_t pass_;
  const uint64_t first_round_;
  Gate reader_went_on_;
  TokenRing ring_;
  Atomic<uint32_t> made_{0};
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Object objects_[3];
  Atomic<Object*> source_;
};

class Rounds : public FencedSuite<Rounds>, Reclaiming {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 0) {
      for (int i = 0; i < 3; i++) read_once(record);
    } else if (index == 1) {
      replace(record, 1);
      if (choose(3) == 0) return park(record);
      for (int i = 0; i < 4; i++) {
        begin(record);
        end(record);
      }
    } else {
      read_once(record);
      if (choose(2) == 1) {
        replace(record, 2);
      } else {
        read_once(record);
      }
      park(record);
    }
  }
};

// One thread retires, stays attached and does nothing.
class Idle : public FencedSuite<Idle>, Reclaiming {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 1) {
      replace(record, 1);
      record.idle.store(kIdle, kRelease);
    } else if (index == 0) {
      for (int i = 0; i < 3; i++) read_once(record);
    } else {
      for (int i = 0; i < 5; i++) read_once(record);
    }
  }
};

class Synchronize : public FencedSuite<Synchronize>, Reclaiming {
 public:
  void thread(unsigned index) {
    Record& record = rooms_[index];
    attach(record);
    if (index == 1) {
      Object* old = unlink(1);
      synchronize(record);
      old->destroy();
      objects_awaited.note();
      return;
    }
    for (int i = 0; i < 2; i++) read_once(record);
    for (int i = 0; i < 6; i++) {
      begin(record);
      end(record);
    }
    reader_went_on_.open();
  }
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Rounds>("receive, pass, skip", Random{600'000}),
    explore<Idle>("taken from an idle thread", Random{100'000}),
    explore<Synchronize>("synchronize", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"an operation begins without a fence", "token.hpp", "activate", kSeqCst, kRelaxed},
    {"a pass without a fence", "token.hpp", "::pass(", kSeqCst, kRelaxed},
    {"a skip without a fence", "token.hpp", "::skip_idle(", kSeqCst, kRelaxed},
    {"the end of an operation does not release", "token.hpp", "deactivate", kRelease, kRelaxed},
    {"a receipt does not acquire", "token.hpp", "::at(", kAcquire, kRelaxed},
    {"the round is not acquired", "token.hpp", "::word(", kAcquire, kRelaxed},
    {"the end of an operation is not acquired", "token.hpp", "is_active", kAcquire, kRelaxed},
    {"the records are not acquired", "token.hpp", "::find(", kAcquire, kRelaxed},
    {"the head of the ring is not acquired", "token.hpp", "::step(", kAcquire, kRelaxed,
     "head.load"},
    {"the end of a thread is not acquired", "token.hpp", "::step(", kAcquire, kRelaxed,
     "attached.load"},
    {"a pass does not release", "token.hpp", "::move(", kRelease, kRelaxed},
    {"a record is not released", "record_list.hpp", "add_record", kAcqRel, kAcquire},
    {"a thread attaches without a fence"},
    {"one bag"},
    {"a receipt counts though the thread was skipped"},
    {"what is left waits for two rounds"},
    {"what an idle thread retired counts as safe"},
    {"rounds are compared as if they did not wrap"},
    {"synchronize begins without a fence"},
    {"synchronize waits for two rounds"},
};

}  // namespace near::model
