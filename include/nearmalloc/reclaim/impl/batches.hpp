// Hyaline: what a thread retired is handed out, in batches, to the threads that may hold some of
// it; the last of them to end its guard frees the batch. Nobody looks whether others have let go.
//
//   pin      note the era, open the thread's list, light fence
//   protect  as in interval.hpp: the era that was noted covers what is read, or is raised first
//   look     after unlinking: heavy fence; note which lists are open, and their threads' eras
//   send     put a node of the batch on each list noted whose thread's era is not before the
//            batch's birth; then drop the sender's reference
//   unpin    close the list, and drop a reference of each batch on it
// The birth of a batch is the earliest birth of its objects. A batch has a reference for each node,
// and one of its sender; the thread that drops the last one owns what is in the batch.
//
// Invariant: a thread that validated its pointer to an object has a reference of the object's
// batch from the moment when it is sent until the thread's guard ends. Proof. Consider the light
// fence after which the thread read the source, that of its pin or that of a raise. If the heavy
// fence of the look precedes it, the thread found that the object was unlinked. Otherwise the look
// finds the list open, or closed by an unpin, whose use of the object it has acquired. And it finds
// the era that was noted, or a later one; it is not before the object's birth, as interval.hpp
// proves, so not before the batch's; or it finds an older era that was noted after the use, and has
// acquired the use. If the look, or the sender, finds a later pin of the thread instead, the
// reference is more than is needed.
// A node is read before its reference is dropped, as the batch and its nodes may be gone after it.
//
// A thread that stalls keeps what was born by the era it noted. The paper's batches have objects of
// any birth, so that one old object makes the thread keep the whole batch. Here the sender cuts a
// batch where the births pass an era that a thread noted (`next_upper`): then each thread that gets
// a part may hold every object in it, as far as births tell.
// [Nikolaev21: Hyaline-1S; the fences are asymmetric here, and each thread has a second list]
// Thread-safety: a thread, or its signal handler, opens and closes its lists; any thread sends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"
#include "nearmalloc/reclaim/impl/interval.hpp"

namespace near::reclaim::impl {

// The last node of an open list. A closed list is null.
template <class Node>
Node* open_end() {
  return reinterpret_cast<Node*>(uintptr_t{1});  // NOLINT(performance-no-int-to-ptr): a mark
}

// Handlers have a list of their own, which stays open if they interrupt a pin (stay.hpp).
template <class Node>
struct BatchLists {
  Atomic<Node*> own{nullptr};
  Atomic<Node*> handlers{nullptr};

  // Whether a handler interrupts the end of a guard. relaxed: the thread's own
  bool is_own_open() const { return own.load(kRelaxed) != nullptr; }
};

// Begins a pin in an era that was read before. Requires that the thread's list is closed.
template <class Node>
void open_list(uint64_t era, IntervalWords& words, Atomic<Node*>& list, bool asymmetric) {
  note_era(words, era);
  list.store(open_end<Node>(), kRelaxed);  // relaxed: ordered by the fence
  light_fence(asymmetric);
}

// The same for a list that may be open: then it stays as it is.
template <class Node>
void keep_open(uint64_t era, IntervalWords& words, Atomic<Node*>& list, bool asymmetric) {
  note_era(words, era);
  Node* closed = nullptr;
  // relaxed: ordered by the fence
  list.compare_exchange_strong(closed, open_end<Node>(), kRelaxed, kRelaxed);
  light_fence(asymmetric);
}

// Returns what was on the list, for `drop`.
template <class Node>
Node* close_list(Atomic<Node*>& list) {
  return list.exchange(nullptr, kAcqRel);  // pairs: batches
}

template <class Node>
bool has_batch(const Node* node) {
  return node != nullptr && node != open_end<Node>();
}

// Drops the references of a list that was closed; calls f(batch) for each that was the last one.
template <class Node, class F>
void drop(Node* node, F f) {
  while (has_batch(node)) {
    typename Node::batch_type* const batch = node->batch;
    Node* const next = node->next;
    if (batch->references.fetch_sub(1, kAcqRel) == 1) f(*batch);  // pairs: batch-references
    node = next;
  }
}

// False: the list is closed.
template <class Node>
bool put_on(Atomic<Node*>& list, Node& node) {
  Node* first = list.load(kAcquire);  // pairs: batches
  do {
    if (first == nullptr) return false;
    node.next = first;
  } while (!list.compare_exchange_weak(first, &node, kAcqRel, kAcquire));  // pairs: batches
  return true;
}

inline constexpr uint64_t kNoEra = UINT64_MAX;

// The lists to which a look sends: those that were open after its fence, each with the era that its
// thread had noted then. A thread whose list was closed, or that raises its era later, finds that
// the objects of this look are unlinked. Beyond kRoom lists, records are read anew each time.
template <class Record, class Node, uint32_t kRoom>
class Targets {
 public:
  // Requires a heavy fence after the objects were unlinked; none was born before `birth`.
  Targets(Record* first, uint64_t birth) : rest_(first) {
    for (; rest_ != nullptr && count_ + 2 <= kRoom; rest_ = rest_->next) {
      for_each_list(*rest_, birth,
                    [&](Atomic<Node*>& list, uint64_t upper) { all_[count_++] = {&list, upper}; });
    }
    for (Record* record = rest_; record != nullptr; record = record->next) rest_count_++;
  }
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;

  // The earliest era, from `birth` on, that a thread noted; kNoEra: no thread holds an object that
  // was born in `birth` or later.
  uint64_t next_upper(uint64_t birth) const {
    uint64_t next = kNoEra;
    for_each(birth, [&](const auto&, uint64_t upper) { next = std::min(next, upper); });
    return next;
  }

  // The most nodes that a batch of this birth needs.
  uint32_t count_from(uint64_t birth) const {
    uint32_t count = 2 * rest_count_;
    for (uint32_t i = 0; i < count_; i++) count += all_[i].upper >= birth ? 1 : 0;
    return count;
  }

  // Calls f(list, upper) for each list whose thread may hold an object born in `birth` or later.
  template <class F>
  void for_each(uint64_t birth, F f) const {
    for (uint32_t i = 0; i < count_; i++) {
      if (all_[i].upper >= birth) f(*all_[i].list, all_[i].upper);
    }
    for (Record* record = rest_; record != nullptr; record = record->next) {
      for_each_list(*record, birth, f);
    }
  }

 private:
  struct Target {
    Atomic<Node*>* list;
    uint64_t upper;
  };

  template <class F>
  static void for_each_list(Record& record, uint64_t birth, F f) {
    const uint64_t upper = record.interval.upper.load(kAcquire);  // pairs: upper
    if (upper < birth) return;
    for (Atomic<Node*>* list : {&record.lists.own, &record.lists.handlers}) {
      // A thread whose list is closed has ended its uses. pairs: batches
      if (list->load(kAcquire) != nullptr) f(*list, upper);
    }
  }

  Record* rest_;
  uint32_t rest_count_ = 0;
  uint32_t count_ = 0;
  Target all_[kRoom];
};

// Sends a batch to all that may hold some of it. Requires batch.room nodes, as many as count_from
// says, and batch.room + 1 references.
// True: no thread holds it, so the caller owns what is in it. False: the batch may be gone.
template <class Lists, class Batch>
bool send(const Lists& targets, Batch& batch) {
  uint32_t used = 0;
  targets.for_each(batch.birth, [&](auto& list, uint64_t) {
    if (put_on(list, batch.nodes[used])) used++;
  });
  const uint32_t unused = batch.room + 1 - used;
  return batch.references.fetch_sub(unused, kAcqRel) == unused;  // pairs: batch-references
}

}  // namespace near::reclaim::impl
