// Sections: a thread that walks through a long structure under epochs stops holding the present one
// back as soon as another thread has begun the next. It keeps its place in a slot meanwhile.
//
//   walk      reads pointers under the announcement of an epoch, as under DEBRA
//   step      at every kSectionSteps-th looks whether there is a new epoch
//   move on   write the place into slots, then announce the new epoch: here one section ends and
//             the next begins; then look whether the place is still in the structure
//   free      what aged, when it was retired three epochs ago, and is in no slot that is read now
//
// Invariant: an object is freed after the last section that could see it, and after it has left the
// slots that were written in such a section. Proof: in a section an object is safe as under DEBRA
// (epoch.hpp). A section that saw the object ends when the thread releases another announcement, or
// none. It releases its slots with that. The thread that frees acquired an epoch that comes after
// this, and then reads the slots: so it finds the object, or what the thread wrote later. A thread
// writes to a slot only inside a section, and what it writes is what the slot held, or is safe
// without the slot: read in this section, or found in the structure, and so retired later.
//
// A new announcement e needs no fence and no second look at the epoch: until a scan finds it, the
// scan finds the older one, which holds the epoch as well. The thread acquired e, and e waited for
// all threads that had announced e - 2. So it sees what those unlinked. What it still finds in the
// structure is retired under e - 1 or later, and freed at e + 2 or later: after this section, as
// the epoch is at most e + 1 until then.
//
// As there is no fence, if a thread unlinked something and then reads the epoch as s, a section of
// s + 1 may still find it. So a thread that waits for all such sections waits for s + 3, as under
// QSBR (quiescence.hpp). A thread that announces s + 2 acquired that from a scan whose fence came
// after s + 1 was read, and so after the fence of the thread that waits: it finds nothing older.
//
// What the thread finds outside the structure must not be followed: its successor may be freed.
// Thread-safety: only the thread itself. [Kim24: HP-RCU, and the checkpoints of HP-BRCU; here a
// thread looks whether it is asked, there a signal interrupts it]
#pragma once

#include <cstdint>

#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/quiescence.hpp"

namespace near::reclaim::impl {

// So many nodes are passed before a thread looks for a new epoch.
inline constexpr uint32_t kSectionSteps = kModel ? 1 : 64;

// Counts the steps of a walk.
class SectionSteps {
 public:
  // True at every kSectionSteps-th call; but the first call after it where `may_begin` is true, if
  // that is false there.
  bool count(bool may_begin) noexcept {
    if (left_ > 1) [[likely]] {
      left_--;
      return false;
    }
    if (may_begin) left_ = kSectionSteps;
    return may_begin;
  }

 private:
  uint32_t left_ = kSectionSteps;
};

// Whether a thread that reclaims waits for the end of this section, or will.
template <class Record>
bool is_asked(const EpochClock& clock, const EpochWords<Record>& words) noexcept {
  return clock.epoch.load(kRelaxed) != words.seen;  // relaxed: a hint, `next_section` acquires
}

// Requires that the thread is pinned, and that all it goes on to use was put into slots by
// `HazardWords::publish`. Returns whether there was a new epoch: then the next section has begun.
template <class Record>
bool next_section(const EpochClock& clock, EpochWords<Record>& words) noexcept {
  return report_quiescent(clock, words);
}

// Whether the guards of a scheme have sections.
template <class Guard>
inline constexpr bool has_sections = requires { requires Guard::has_sections; };

// Called at each step of a walk. True: the next section has begun, and of what the guard protected
// `place` may be read, but not followed before it was found in the structure again. `may_begin`:
// the walk can go on from this place.
template <class Guard, class Node>
bool begins_section([[maybe_unused]] Guard& guard, [[maybe_unused]] SectionSteps& steps,
                    [[maybe_unused]] const Node* place,
                    [[maybe_unused]] bool may_begin = true) noexcept {
  if constexpr (has_sections<Guard>) {
    return steps.count(may_begin) && guard.checkpoint(place);
  } else {
    return false;
  }
}

// The operations of a structure that pin by themselves do this: nothing but their own place is
// needed from one section to the next.
template <class Guard>
void allow_checkpoints(Guard& guard) noexcept {
  if constexpr (has_sections<Guard>) guard.allow_checkpoints();
}

// As long as it lives, the guard stays in its section: code of the program runs inside a walk.
template <class Guard>
class OneSection {
 public:
  explicit OneSection(Guard& guard) noexcept : guard_(guard) {
    if constexpr (has_sections<Guard>) allowed_ = guard.allow_checkpoints(false);
  }
  ~OneSection() {
    if constexpr (has_sections<Guard>) guard_.allow_checkpoints(allowed_);
  }
  OneSection(const OneSection&) = delete;
  OneSection& operator=(const OneSection&) = delete;

 private:
  Guard& guard_;
  bool allowed_ = false;
};

}  // namespace near::reclaim::impl
