// One thread's limbo: what it retired, in bags by the time of retirement, and what became safe.
//
//   bags[label % kBags]   retired while the thread's clock showed `label`
//   aged                  only under `checkpoints`: out of reach of all sections, but a slot may
//                         hold it
//   expired               safe to free; freed as the policy says
// Invariants: retired = freed + lost + objects in bags, in aged and in expired. The bytes in these
// plus the credit are the credit that the domain gave (reclaim/budget.cc).
// Whole bags move from one list to another in constant time; objects are not touched before they
// are freed. Memory: blocks of 1,280 bytes, of which a few are kept in reserve; push allocates only
// when a block is full and the reserve is empty. If that fails, the object is lost (leaked, and
// counted), never freed early.
// Thread-safety: only the thread inside the record's OwnerLock; any thread may read the counters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/interval.hpp"
#include "nearmalloc/reclaim/limbo_memory.hpp"

namespace near::reclaim {

using deleter = void (*)(void*) noexcept;

namespace impl {

struct Record;

struct Entry {
  void* object;
  deleter destroy;
};

// What a limbo has to know of an object that has words of its own.
struct Retirable;
struct RetirableType {
  void* (*object_of)(Retirable& words) noexcept;
  deleter destroy;
  size_t bytes;
};

// The words of an object that may be set aside (aside.hpp).
struct Retirable {
  Retirable* next = nullptr;
  const RetirableType* type = nullptr;
};

struct EntryBlock {
  static constexpr uint32_t kEntries = 63;
  EntryBlock* next;
  uint32_t count;
  Entry entries[kEntries];
  uint32_t bytes[kEntries];  // of each object
};
static_assert(sizeof(EntryBlock) == 1280);

// Where a domain needs the lives of objects, all its blocks are of this kind.
struct DatedBlock : EntryBlock {
  Life lives[kEntries];
};

// A number that its owner changes under the lock; it may be read as a hint without the lock.
class Count {
 public:
  Count() = default;
  Count(const Count& other) : Count() { *this = other; }
  Count& operator=(const Count& other) { return *this = static_cast<size_t>(other); }
  Count& operator=(size_t value) {
    value_.store(value, kRelaxed);  // relaxed: written by one thread at a time, under the lock
    return *this;
  }
  operator size_t() const { return value_.load(kRelaxed); }  // relaxed: a hint, or under the lock
  void operator+=(size_t more) { *this = *this + more; }
  void operator-=(size_t fewer) { *this = *this - fewer; }
  void operator++(int) { *this += 1; }
  void operator--(int) { *this = *this - 1; }

 private:
  Atomic<size_t> value_{0};
};

// A list of blocks; any of them may be partly filled.
struct Bag {
  EntryBlock* first = nullptr;
  EntryBlock* last = nullptr;
  Count objects;
  Count bytes;
  uint64_t label = 0;

  void append(Bag& other);  // empties `other`
  void push_block(EntryBlock* block);
  void clear();  // drops the blocks without freeing them; the label stays
};

struct Births {
  uint64_t earliest;
  uint64_t latest;
};

// How blocks of memory without a destructor to run are freed in runs.
struct FreeRun {
  deleter one;  // frees one block; an entry with this deleter may be part of a run
  size_t (*many)(void* const* blocks, size_t count) noexcept;  // null: one by one
};

inline constexpr limbo_memory kUsualMemory;

// The credit of a thread whose domain has no limit.
inline constexpr int64_t kNoLimit = INT64_MAX / 2;

class Limbo {
 public:
  static constexpr unsigned kMaxBags = 3;
  static constexpr uint32_t kSpares = 8;
  static constexpr size_t kRun = 64;  // objects handed over together at most

  // False: there is no memory, and nothing was done.
  bool try_push(void* object, deleter destroy, size_t bytes) noexcept {
    EntryBlock* block = current_->first;
    if (block == nullptr || block->count == EntryBlock::kEntries) [[unlikely]] {
      if (!add_block()) return false;
      block = current_->first;
    }
    const auto counted = static_cast<uint32_t>(std::min<size_t>(bytes, UINT32_MAX));
    block->bytes[block->count] = counted;
    block->entries[block->count++] = {object, destroy};
    current_->objects++;
    current_->bytes += counted;
    credit -= counted;
    count(retired_, 1);
    return true;
  }

  // The life of the object that was pushed last. Requires that the limbo is dated.
  void date_last(const Life& life) noexcept {
    life_of(*current_->first, current_->first->count - 1) = life;
  }
  static Life& life_of(EntryBlock& block, uint32_t i) noexcept {
    return static_cast<DatedBlock&>(block).lives[i];
  }

  // Counts an object that is never freed.
  void leak() noexcept {
    count(retired_, 1);
    count(lost_, 1);
  }

  // The thread's clock shows `now`: what was retired `distance` ago or earlier expires; the bag
  // now % distance receives new objects. Where `ages` is set, what would expire here and in the
  // functions below becomes aged instead.
  void advance(uint64_t now, unsigned distance) noexcept;
  // Expires everything.
  void expire_all() noexcept;
  // Expires what has aged; of this the objects for which is_held(block, its index) is true stay.
  void expire_aged() noexcept { expired_.append(aged_); }
  template <class IsHeld>
  void sift_aged(IsHeld is_held) noexcept {
    Bag all;
    all.append(aged_);
    sift(all, is_held, expired_, aged_);
  }
  // Objects for which is_held(block, its index) is true stay in the current bag; all others expire.
  // Reorders.
  template <class IsHeld>
  void sift(IsHeld is_held) noexcept {
    sift(is_held, expired_);
  }

  // For Hyaline. The earliest and the latest birth in the bags. Requires that there are some.
  Births births() noexcept;
  // Moves what was born until then to `batch`, which no limbo counts, and back to what is expired
  // here, or in another limbo.
  void take_out(uint64_t born_until, Bag& batch) noexcept;
  void take_in(Bag& batch) noexcept;

  // Frees up to `most` expired objects; returns how many. Requires the lock of `owner`, if given.
  size_t free_expired(size_t most, const FreeRun& run, Record* owner = nullptr) noexcept;
  // Hands everything to another thread's limbo: as safe to free; or what expired as safe, and the
  // rest as retired just now. The counts move with it.
  void give_all_safe(Limbo& to) noexcept;
  void give_all_held(Limbo& to) noexcept;
  // Hands over only what is safe at `now`: what has expired, and the bags that would expire.
  void give_safe(uint64_t now, unsigned distance, Limbo& to) noexcept;
  // Leaks everything, and counts it as lost: the limbo may be inconsistent.
  void lose_all() noexcept;
  void free_spares() noexcept;

  bool is_dated = false;                       // constant from before the first push on
  bool ages = false;                           // constant from before the first push on
  const limbo_memory* memory = &kUsualMemory;  // constant from before the first push on

  // What this thread may still retire before it asks the domain. Guarded as all else.
  int64_t credit = 0;
  // What `try_retire` found for a retirement, until it returns: nobody else takes that much of the
  // credit.
  int64_t promised = 0;

  size_t bytes() const;  // in bags and expired; while objects move, some may count twice
  size_t waiting() const { return expired_.objects; }
  size_t current() const { return current_->objects; }
  size_t held() const;  // in bags and aged: not known to be safe
  size_t aged() const { return aged_.objects; }

  // relaxed: counters, read for statistics
  uint64_t retired() const { return retired_.load(kRelaxed); }
  uint64_t freed() const { return freed_.load(kRelaxed); }
  uint64_t lost() const { return lost_.load(kRelaxed); }
  uint64_t unreclaimed() const;
  uint64_t longest_run() const { return longest_run_.load(kRelaxed); }  // relaxed: the same
  // Notes that so many objects were freed in one go; the most is `longest_run`.
  void record_run(uint64_t objects) noexcept;

 private:
  template <class Stays>
  void sift(Stays stays, Bag& rest) noexcept;
  template <class Stays>
  void sift(Bag& all, Stays stays, Bag& rest, Bag& to) noexcept;
  Bag& ended() noexcept { return ages ? aged_ : expired_; }
  void give_ended(Limbo& to) noexcept;
  bool add_block() noexcept;
  void lose_from(EntryBlock& block, uint32_t first) noexcept;
  EntryBlock* take_spare() noexcept;
  size_t block_bytes() const { return is_dated ? sizeof(DatedBlock) : sizeof(EntryBlock); }
  void give_back(EntryBlock* block) const noexcept {
    memory->deallocate(block, block_bytes(), memory->context);
  }
  void keep_spare(EntryBlock* block) noexcept;
  void expire(uint64_t now, unsigned distance) noexcept;
  void give_count(uint64_t objects, Limbo& to) noexcept;
  void exchange(EntryBlock& block, uint32_t i, uint32_t k) const noexcept;
  void move_last(EntryBlock& from, EntryBlock& to) const noexcept;
  static void count(Atomic<uint64_t>& counter, uint64_t more) {
    // relaxed: one thread at a time writes; read for statistics
    counter.store(counter.load(kRelaxed) + more, kRelaxed);
  }

  Bag bags_[kMaxBags];
  Bag* current_ = &bags_[0];
  Bag aged_;
  Bag expired_;
  EntryBlock* spares_ = nullptr;
  uint32_t spare_count_ = 0;
  Atomic<uint64_t> retired_{0};
  Atomic<uint64_t> freed_{0};
  Atomic<uint64_t> lost_{0};
  Atomic<uint64_t> longest_run_{0};
};

// What is in the bags stays in the current one, or moves to `rest`.
template <class Stays>
void Limbo::sift(Stays stays, Bag& rest) noexcept {
  Bag all;
  for (Bag& bag : bags_) all.append(bag);
  sift(all, stays, rest, *current_);
}

// Moves what stays to `to`, and the others to `rest`.
template <class Stays>
void Limbo::sift(Bag& all, Stays stays, Bag& rest, Bag& to) noexcept {
  Bag kept;
  for (EntryBlock* block = all.first; block != nullptr;) {
    EntryBlock* next = block->next;
    uint32_t others = 0;
    for (uint32_t i = 0; i < block->count; i++) {
      // Entries that stay gather behind the others.
      if (stays(*block, i)) continue;
      exchange(*block, i, others++);
    }
    for (; block->count > others; kept.objects++) {
      if (kept.first == nullptr || kept.first->count == EntryBlock::kEntries) {
        EntryBlock* room = take_spare();
        if (room == nullptr) break;  // the rest of the block is lost below
        kept.push_block(room);
      }
      kept.bytes += block->bytes[block->count - 1];
      move_last(*block, *kept.first);
    }
    if (block->count > others) lose_from(*block, others);
    if (others > 0) {
      rest.push_block(block);
      rest.objects += others;
      for (uint32_t i = 0; i < others; i++) rest.bytes += block->bytes[i];
    } else {
      keep_spare(block);
    }
    block = next;
  }
  to.append(kept);
}

}  // namespace impl
}  // namespace near::reclaim
