// Model of sections (reclaim/impl/section.hpp, with epoch.hpp, hazard.hpp and the walks of
// ordered_list.hpp, which looks for a new epoch at every node here). Mirrors guard::checkpoint of
// reclaim/guard.hpp, begin_section and enter_epoch of reclaim/epochs.cc, expire_unheld of
// reclaim/hazards.cc, and the waits of reclaim/waiting.cc. Fences are of both kinds.
//
// Invariant: a node is freed after the last use by every thread that could see it. A key that no
// thread erases is found.
// Bound: 3 threads on a list of the keys 1, 2, 3 and 5, of which 5 stays. One walks 2 times, to
// find 5, to erase 3 or to visit all, and waits, at will, before, in and after a checkpoint; then
// it enters 2 epochs. One erases 1 or 2, or the next as well, and enters 5 epochs; one erases 2 or
// inserts 4, or neither, and advances the epoch 6 times. Threads that enter an epoch look at the
// slots again, or read 3. Waits: one thread reads in up to 5 sections, one unlinks what it reads
// and waits, as synchronize or as a barrier, one advances the epoch 3 times.
#include "nearmalloc/reclaim/impl/ordered_list.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness epochs_advanced("epochs advanced");
Witness sections_begun("sections begun inside a walk");
Witness nodes_held("nodes that aged while a slot held them");
Witness nodes_freed("nodes freed while another thread was in a walk");
Witness places_lost("walks that lost their place");
Witness held_awaited("waits for an object that a slot held");
Witness objects_awaited("objects freed after a wait");

constexpr uint32_t kInserted = 4;
constexpr uint32_t kStays = 5;

struct Node {
  using removable_type = Node;

  bool precedes(uint32_t probe) const {
    object.touch();
    return key < probe;
  }
  bool matches(uint32_t probe) const { return key == probe; }
  uint32_t probe() const { return key; }
  void make(uint32_t its_key, const Node* its_next) {
    key = its_key;
    object.make();
    next.store(word_of(its_next), kRelaxed);
  }
  // A race with any thread that still reads the node; its link no longer leads on.
  void free() {
    object.destroy();
    key = 0;
    next.store(0, kRelaxed);
  }

  list_link next{0};
  Plain<uint32_t> key;
  Object object;
};

struct Record {
  EpochWords<Record> epoch;
  HazardWords hazards;
  Plain<Record*> next;
  SlotRow row;
  Plain<uint64_t> label;
  Node* nodes[kStays] = {};  // retired, not freed
  uint64_t labels[kStays] = {};
  uint32_t count = 0;
};

class Sections : public FencedSuite<Sections> {
 public:
  Sections() : asymmetric_(choose(2) == 1) {}

  void before() {
    const Node* next = nullptr;
    for (const uint32_t key : {kStays, 3u, 2u, 1u}) {
      nodes_[key].make(key, next);
      next = &nodes_[key];
    }
    head_.store(word_of(next), kRelaxed);
    for (Record& each : records_) {
      each.label = each.epoch.seen;
      add_record(head_of_records_, each);
    }
  }

  void thread(unsigned index) {
    Record& record = records_[index];
    if (index == 0) {
      if (choose(4) > 0) has_advanced_.wait();
      for (int i = 0; i < 2; i++) walk(record);
      for (int i = 0; i < 2; i++) {
        linger();
        visit(record);
      }
    } else if (index == 1) {
      erase(record, 1 + choose(2), choose(2) == 0);
      has_erased_.open();
      for (int i = 0; i < 5; i++) {
        linger();
        visit(record);
      }
    } else {
      has_pinned_.wait();
      advance();
      has_advanced_.open();
      change(record);
      has_erased_.wait();
      for (int i = 0; i < 5; i++) {
        for (int tries = 0; tries < 20 && !advance(); tries++) pause();
        visit(record);
      }
    }
  }

 private:
  // As guard<checkpoints>.
  struct Guard {
    static constexpr bool protects_all = true;
    static constexpr bool has_sections = true;

    Guard(Sections& its, Record& mine) : all(its), record(mine) { all.pin(record); }
    ~Guard() {
      record.hazards.give_back(record.row);
      unannounce(record.epoch);
    }
    bool checkpoint(const Node* place) { return may_checkpoint && all.checkpoint(record, place); }
    bool allow_checkpoints(bool allowed) { return std::exchange(may_checkpoint, allowed); }
    void retire(Node* node) {
      record.nodes[record.count] = node;
      record.labels[record.count++] = record.label;
    }

    Sections& all;
    Record& record;
    bool may_checkpoint = true;
  };

  void pin(Record& record) {
    if (announce_seen(clock_, record.epoch, asymmetric_)) return;
    if (mutated("slots are read before the epoch")) note_held(record);
    settle(clock_, record.epoch, asymmetric_);
    enter_epoch(record);
  }

  bool checkpoint(Record& record, const Node* place) {
    if (&record == &records_[0]) {
      has_read_.open();
      linger();
    }
    if (!is_asked(clock_, record.epoch)) return false;
    const auto hold = [&] { record.hazards.publish(record.row, 0, place); };
    const bool is_late = mutated("a place is put into the slot after the announcement");
    const bool is_never = mutated("a place is in no slot");
    if (!is_late && !is_never) hold();
    linger();
    const bool is_new = next_section(clock_, record.epoch);
    linger();
    if (is_late) hold();
    place->object.touch();
    expect(is_new, "a thread that is asked finds no new epoch");
    sections_begun.note();
    if ((place->next.newest() & kRemovedBit) != 0) places_lost.note();
    if (!mutated("a new section keeps the label")) enter_epoch(record);
    return true;
  }

  // Waits, at will, until the epoch moves, or a node is freed; gives up, for it may hold the epoch.
  void linger() const {
    const uint32_t what = choose(4);
    const auto now = [&] { return what == 0 ? freed_ : clock_.epoch.newest(); };
    const uint64_t before = now();
    for (int i = 0; what < 2 && i < 60 && now() == before; i++) pause();
  }

  void note_held(const Record& record) {
    for (uint32_t i = 0; i < record.count; i++) held_before_[i] = is_held(record.nodes[i]);
  }

  bool is_held(const Node* node) const {
    bool found = false;
    collect_hazards(head_of_records_, [&](const void* held) { found = found || held == node; });
    return found;
  }

  void enter_epoch(Record& record) {
    look(record);
    record.label = record.epoch.seen;
  }

  // Limbo::advance and expire_unheld
  void look(Record& record) {
    const uint64_t now = record.epoch.seen;
    const uint64_t distance = mutated("two bags") ? 2 : kEpochBags;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record.count; i++) {
      Node* const node = record.nodes[i];
      const bool has_aged = record.labels[i] + distance <= now;
      const bool stays = !has_aged || (mutated("slots are read before the epoch") ? held_before_[i]
                                                                                  : is_held(node));
      if (stays) {
        if (has_aged) nodes_held.note();
        record.nodes[kept] = node;
        record.labels[kept++] = record.labels[i];
      } else {
        if (is_walking_) nodes_freed.note();
        node->free();
        freed_++;
      }
    }
    record.count = kept;
  }

  // Scans until it is blocked, or the epoch ends.
  bool advance() {
    EpochWords<Record> words;
    words.seen = clock_.epoch.load(kAcquire);
    Scan scan = Scan::going;
    while (scan == Scan::going) {
      scan = scan_step(clock_, head_of_records_, words, asymmetric_);
      if (scan == Scan::blocked && mutated("a blocked scan goes on")) {
        words.cursor = words.cursor->next;
        if (words.cursor != nullptr) scan = Scan::going;
      }
    }
    if (scan == Scan::advanced) epochs_advanced.note();
    return scan == Scan::advanced;
  }

  // Reads, or looks at the slots again.
  void visit(Record& record) {
    Guard guard(*this, record);
    guard.may_checkpoint = false;
    if (choose(2) == 0) return look(record);
    const Node* const found = list_find<Node>(guard, head_, uint32_t{3});
    if (found == nullptr) return;
    linger();
    found->object.touch();
  }

  void walk(Record& record) {
    Guard guard(*this, record);
    is_walking_ = true;
    const uint32_t what = choose(3);
    if (what == 0) {
      list_erase<Node>(guard, head_, uint32_t{3});
    } else if (what == 1) {
      visit_all(guard);
    } else {
      const Node* const found = list_find<Node>(guard, head_, kStays);
      expect(found != nullptr, "the key that stays was not found");
      found->object.touch();
    }
    is_walking_ = false;
  }

  void visit_all(Guard& guard) {
    uint32_t last = 0;
    list_visit<Node>(guard, head_, uint32_t{0}, [&](const Node& each) {
      expect(each.key > last, "a key is visited twice, or out of order");
      last = each.key;
      return true;
    });
    expect(last == kStays, "the key that stays was not visited");
  }

  // The walk is at the place where it begins a section.
  void change(Record& record) {
    const uint32_t what = choose(3);
    if (what == 0) return erase(record, 2, false);
    if (what == 1) return;
    Guard guard(*this, record);
    has_read_.wait();
    nodes_[kInserted].make(kInserted, nullptr);
    list_walk<Node, Guard> walk(guard, head_);
    do {
      walk.seek(kInserted);
    } while (!walk.insert(&nodes_[kInserted]));
  }

  // Erases the next key as well, so that the first node still leads to the second.
  void erase(Record& record, uint32_t key, bool next_too) {
    Guard guard(*this, record);
    has_pinned_.open();
    if (choose(4) > 0) has_read_.wait();
    list_erase<Node>(guard, head_, key);
    if (next_too) list_erase<Node>(guard, head_, key + 1);
  }

  const bool asymmetric_;
  EpochClock clock_;
  Atomic<Record*> head_of_records_{nullptr};
  Record records_[3];
  list_link head_{0};
  Node nodes_[kStays + 1];
  bool held_before_[kStays] = {};
  bool is_walking_ = false;
  uint64_t freed_ = 0;
  Gate has_pinned_, has_advanced_, has_read_, has_erased_;
};

// A thread waits for others that may use what it unlinked: in a section that they began without a
// fence, or because a slot holds it.
class Waits : public FencedSuite<Waits> {
 public:
  Waits() : asymmetric_(choose(2) == 1) {}

  void before() {
    for (Object& each : objects_) each.make();
    source_.store(&objects_[0], kRelaxed);
    for (Record& each : records_) add_record(head_of_records_, each);
  }

  void thread(unsigned index) {
    Record& record = records_[index];
    if (index == 0) {
      read(record);
    } else if (index == 1) {
      unlink_and_wait(record);
    } else {
      if (choose(4) > 0) has_pinned_.wait();
      for (int i = 0; i < 3; i++) advance();
    }
  }

 private:
  // A guard that makes a checkpoint between any two reads, if it is asked. It goes on to hold what
  // it held, or holds what it read last, or nothing.
  void read(Record& record) {
    settle(clock_, record.epoch, asymmetric_);
    has_pinned_.open();
    const Object* held = nullptr;
    for (int i = 0; i < 4; i++) {
      const Object* const seen = source_.load(kAcquire);
      seen->touch();
      linger();
      seen->touch();
      if (held != nullptr) held->touch();
      if (!is_asked(clock_, record.epoch)) continue;
      const uint32_t what = choose(4);
      if (what < 2) held = what == 0 ? seen : nullptr;
      record.hazards.publish(record.row, 0, held);
      next_section(clock_, record.epoch);
    }
    if (held != nullptr) held->touch();
    record.hazards.give_back(record.row);
    unannounce(record.epoch);
  }

  void linger() const {
    const uint64_t before = clock_.epoch.newest();
    const bool is_patient = choose(4) > 0;
    for (int i = 0; is_patient && i < 60 && clock_.epoch.newest() == before; i++) pause();
  }

  void unlink_and_wait(Record& me) {
    settle(clock_, me.epoch, asymmetric_);
    if (choose(2) == 0) has_pinned_.wait();
    Object* const old = source_.exchange(&objects_[1], kAcqRel);
    unannounce(me.epoch);
    wait_for_epochs();
    if (!mutated("a wait ends while a slot holds the object")) {
      if (choose(2) == 0) {
        wait_for_places();
      } else {
        wait_for_slots(old);
      }
    }
    old->destroy();
    objects_awaited.note();
  }

  void wait_for_epochs() {
    const uint64_t distance = mutated("a wait ends after two epochs") ? 2 : kEpochsToWait;
    heavy_fence(asymmetric_);
    const uint64_t start = clock_.epoch.load(kAcquire);
    while (clock_.epoch.load(kAcquire) < start + distance) advance_or_yield();
  }

  void wait_for_places() {
    for (Record& each : records_) {
      const uint32_t used = each.hazards.used.load(kRelaxed);
      for (uint32_t i = 0; i < used; i++) {
        Atomic<const void*>& slot = each.hazards.slots[i];
        const void* const held = slot.load(kAcquire);
        while (held != nullptr && slot.load(kAcquire) == held) {
          held_awaited.note();
          advance_or_yield();
        }
      }
    }
  }

  void wait_for_slots(const Object* old) {
    for (;;) {
      bool is_held = false;
      collect_hazards(head_of_records_,
                      [&](const void* held) { is_held = is_held || held == old; });
      if (!is_held) return;
      held_awaited.note();
      advance_or_yield();
    }
  }

  void advance_or_yield() {
    if (!advance()) rl::yield(1, debug_info(Place::current()));
  }

  bool advance() {
    EpochWords<Record> words;
    words.seen = clock_.epoch.load(kAcquire);
    Scan scan = Scan::going;
    while (scan == Scan::going) scan = scan_step(clock_, head_of_records_, words, asymmetric_);
    return scan == Scan::advanced;
  }

  const bool asymmetric_;
  EpochClock clock_;
  Atomic<Record*> head_of_records_{nullptr};
  Record records_[3];
  Object objects_[2];
  Atomic<Object*> source_{nullptr};
  Gate has_pinned_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Sections>("walks, erasures, epochs", Random{200'000}),
    explore<Waits>("waits for sections and slots", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"a scan without a fence", "epoch.hpp", "scan_step", kSeqCst, kRelaxed},
    {"an announcement is not acquired", "epoch.hpp", "scan_step", kAcquire, kRelaxed,
     "announced.load"},
    {"an advance does not release", "epoch.hpp", "scan_step", kRelease, kRelaxed,
     "compare_exchange"},
    {"a pin does not acquire the epoch", "epoch.hpp", "announce_newest", kAcquire, kRelaxed},
    {"a section does not release", "quiescence.hpp", "report_quiescent", kRelease, kRelaxed},
    {"a section does not acquire the epoch", "quiescence.hpp", "report_quiescent", kAcquire,
     kRelaxed},
    {"a slot does not release what it held", "hazard.hpp", "::publish(", kRelease, kRelaxed},
    {"a slot that is given back does not release", "hazard.hpp", "::empty(", kRelease, kRelaxed},
    {"a slot is not acquired", "hazard.hpp", "collect_hazards", kAcquire, kRelaxed,
     "slots[i].load"},
    {"a link is not acquired", "ordered_list.hpp", "keeps_place(", kAcquire, kRelaxed},
    {"two bags"},
    {"a blocked scan goes on"},
    {"a place is in no slot"},
    {"a place is put into the slot after the announcement"},
    {"slots are read before the epoch"},
    {"a new section keeps the label"},
    {"a wait ends after two epochs"},
    {"a wait ends while a slot holds the object"},
};

}  // namespace near::model
