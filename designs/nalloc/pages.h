// The pages that belong to no thread: clean ones, last freed first; those whose memory went back to
// the system; and never-used ones, sixteen at a time (switches `batch` and `populate`).
// [Podolsky13 "Optimizations"]
//
// Pages are never unmapped, and their links are stored in the first page of each chunk of 512. So a
// thread can safely read the link of a page that another thread has taken meanwhile, and a page's
// own memory can go back to the system while the page is on a stack.
// Invariant: a page is on `clean_` or on `purged_`, or belongs to one thread. Page 0 holds links.
// Thread-safety: any thread, without a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"
#include "designs/nalloc/settings.h"
#include "designs/shared/arena.h"
#include "sync/tagged_stack.h"

namespace near::design::nalloc {

inline constexpr size_t kPage = 4096;

// What a page is used for; stored in its first word.
enum class Kind : uint32_t { none, slab, coalescing };

// By bits, unless a switch asks for the division that the author had first: "div was so intense".
inline char* page_of(const void* block) {
  const auto address = reinterpret_cast<uintptr_t>(block);
  const size_t divisor = settings.divisor;
  return reinterpret_cast<char*>(unlikely(divisor != 0) ? address - address % divisor
                                                        : align_down(address, kPage));
}

// Pages that one heap took from the arena and has not used yet.
struct FreshPages {
  uint32_t next = 0;
  uint32_t end = 0;
};

class Pages {
 public:
  bool start();

  // True for a page that has been taken from the arena: its first word is a kind.
  bool contains(const void* pointer) const {
    return reinterpret_cast<uintptr_t>(pointer) - arena_.start() < arena_.taken();
  }

  // A page of arbitrary contents; null if memory is refused.
  char* take(FreshPages& fresh);
  void put(char* page);

  // Gives the memory of the clean pages back to the system. True if there was any.
  bool trim();

  // Pages by index, for tagged stacks of pages here and elsewhere.
  uint32_t index_of(const void* page) const {
    return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(page) - arena_.start()) / kPage);
  }
  char* at(uint32_t index) const {
    return reinterpret_cast<char*>(arena_.start() + size_t{index} * kPage);
  }
  Atomic<uint32_t>& next(uint32_t index) const {
    auto* links = reinterpret_cast<Atomic<uint32_t>*>(at(index & ~(kChunkPages - 1)));
    return links[index & (kChunkPages - 1)];
  }

  size_t reserved() const { return arena_.size(); }
  size_t committed() const { return arena_.committed(); }
  size_t taken() const { return arena_.taken() / kPage; }
  size_t clean() const { return clean_count_.load(kRelaxed); }  // relaxed: a statistic
  size_t batches() const { return taken() / settings.batch; }
  size_t populated() const { return populated_.load(kRelaxed); }  // relaxed: a statistic
  size_t purged() const { return purged_count_.load(kRelaxed); }  // relaxed: a statistic

 private:
  static constexpr uint32_t kChunkPages = 512;

  char* pop(TaggedStack& stack, Atomic<size_t>& count);
  void push(TaggedStack& stack, Atomic<size_t>& count, uint32_t index);
  char* take_fresh(FreshPages& fresh);
  bool purge(uint32_t index);

  design::Arena arena_;
  alignas(64) TaggedStack clean_;
  Atomic<size_t> clean_count_{0};
  alignas(64) TaggedStack purged_;
  Atomic<size_t> purged_count_{0};
  Atomic<size_t> populated_{0};
};

extern Pages pages NEAR_HIDDEN;

}  // namespace near::design::nalloc
