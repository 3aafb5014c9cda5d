// Interval-based reclamation: a thread reserves an interval of eras, and keeps what lived in it.
//
//   make      note the era as the object's birth
//   pin       reserve [era, era], light fence
//   protect   read the source, then the era; if that is not the reservation's upper end: raise the
//             end to it, light fence, and read both again
//   retire    after unlinking: light fence, note the era as the end of the object's life
//   look      read the era, heavy fence, era + 1; then read the reservations of all records
// An object with the life [b, r] is held by a reservation [l, u] if b <= u and l <= r + 1.
//
// Invariant: a thread that validated its pointer to an object that was unlinked before the fence of
// a look holds the object. Proof. The object's maker published it after it read b, and the thread
// found the era u after it found the object: b <= u. Suppose that l >= r + 2. The look that made
// r + 2 has a fence after it read r + 1. If that fence precedes the light fence of the retirement,
// that retirement found r + 1 at least. If it follows, what was unlinked is unlinked for all that
// come after r + 2, as the thread does, which acquired l at its pin. So l <= r + 1.
// Last, the look finds [l, u], or more: otherwise its fence precedes the light fence after which
// the thread read its source, and the thread found that the object was unlinked. A reader must not
// follow the pointers of an object that may be unlinked itself, as with hazard pointers: the object
// they lead to may have been freed before the thread reserved its birth.
// So a thread that stalls keeps what was born by its u: what lived, or waited, when it last read a
// pointer.
// The upper end may go down, once: a handler that runs after its thread read the era, and before
// the thread noted it, may raise the end further and use a younger object. Its guard has ended when
// the thread notes the older era, so the older era is right. But a look that finds it concludes
// that the thread does not hold that object; so it acquires the end, and with it the handler's use.
// All domains of a process share one era, so that a constructor can read it. [Wen18 2GEIBR]
// Thread-safety: only a thread itself, or a signal handler of it, writes its words.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

inline constexpr uint64_t kFirstEra = 2;

struct alignas(128) EraClock {
  Atomic<uint64_t> now{kFirstEra};
};

struct IntervalWords {
  Atomic<uint64_t> lower{0};  // 0: no reservation
  Atomic<uint64_t> upper{0};
};

struct Life {
  uint64_t birth = 0;
  uint64_t end = 0;
};

// The era in which an object is made that is not published yet.
inline uint64_t read_birth(const EraClock& clock) {
  return clock.now.load(kRelaxed);  // relaxed: publishing the object releases what was read
}

// Notes an era that was read before, as the upper end.
inline void note_era(IntervalWords& words, uint64_t era) {
  words.upper.store(era, kRelease);  // pairs: upper
}

// Begins a reservation, in an era that was acquired.
inline void reserve_in(uint64_t era, IntervalWords& words, bool asymmetric) {
  note_era(words, era);
  words.lower.store(era, kRelease);  // pairs: interval
  light_fence(asymmetric);
}

inline void reserve(const EraClock& clock, IntervalWords& words, bool asymmetric) {
  reserve_in(clock.now.load(kAcquire), words, asymmetric);  // pairs: era
}

inline void end_reservation(IntervalWords& words) {
  words.lower.store(0, kRelease);  // pairs: interval
}

// The rest of `extend`, once it has read the era.
inline void raise_to(uint64_t era, IntervalWords& words, bool asymmetric) {
  note_era(words, era);
  light_fence(asymmetric);
}

// Reserves the present era as well, and returns it. What is read from now on is protected if the
// era is still the same afterwards.
inline uint64_t extend(const EraClock& clock, IntervalWords& words, bool asymmetric) {
  const uint64_t era = clock.now.load(kRelaxed);  // relaxed: compared with what is read later
  // relaxed: the thread's own, or its handler's
  if (words.upper.load(kRelaxed) == era) [[likely]]
    return era;
  raise_to(era, words, asymmetric);
  return era;
}

// Whether the era is still the one that `extend` returned.
inline bool is_still(const EraClock& clock, uint64_t era) {
  return clock.now.load(kRelaxed) == era;  // relaxed: it follows an acquire load of the caller
}

template <class T>
T* protect_by_era(const EraClock& clock, IntervalWords& words, const Atomic<T*>& source,
                  bool asymmetric) {
  for (;;) {
    const uint64_t era = extend(clock, words, asymmetric);
    T* const object = source.load(kAcquire);  // pairs: program
    if (is_still(clock, era)) [[likely]]
      return object;
  }
}

// The era to note for an object that the caller has unlinked.
inline uint64_t read_end(const EraClock& clock, bool asymmetric) {
  light_fence(asymmetric);
  return clock.now.load(kRelaxed);  // relaxed: ordered by the fence
}

// Begins a look: what was unlinked before is unlinked, or its reservation is visible. `asymmetric`:
// some thread of the process has light fences.
inline void begin_era(EraClock& clock, bool asymmetric) {
  uint64_t era = clock.now.load(kRelaxed);  // relaxed: ordered by the fence
  heavy_fence(asymmetric);                  // pairs: era
  // If it fails, another thread has begun an era, after a fence of its own.
  clock.now.compare_exchange_strong(era, era + 1, kRelaxed, kRelaxed);  // relaxed: see the fence
}

// Calls f(lower, upper) for every reservation, after begin_era.
template <class Record, class F>
void collect_intervals(const Atomic<Record*>& head, F f) {
  // pairs: records
  for (Record* record = head.load(kAcquire); record != nullptr; record = record->next) {
    const uint64_t lower = record->interval.lower.load(kAcquire);  // pairs: interval
    if (lower == 0) continue;
    f(lower, record->interval.upper.load(kAcquire));  // pairs: upper
  }
}

inline bool holds(uint64_t lower, uint64_t upper, const Life& life) {
  return life.birth <= upper && lower <= life.end + 1;
}

}  // namespace near::reclaim::impl
