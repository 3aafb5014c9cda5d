// The life cycle of a span in the frontend: the state change after a free, and after leaving hot.
//
// A free has two steps, the push on a free list and the state change that may follow; the
// original's races lie between them. Here the second step uses nothing read before the first: it
// reads the epoch, then the span's class and counts, and acts by try_mark on that epoch. A thread
// whose try_mark fails begins again. So of all threads that freed in a span that is not hot, the
// last one to look sees all frees, and acts. Any thread may run the second step for any span.
// Invariant: a span that is neither hot nor free has a live block, or a thread is in settle() for
// it. (With Reclaim::allocation: or it is in a set.)
// Thread-safety: any thread; leave_hot the owner. [Aigner15 §3.4, §5, listing 3]
#pragma once

#include <cstdint>

#include "designs/scalloc/epoch.h"
#include "designs/scalloc/reusable_set.h"
#include "platform/fence.h"

namespace near::design::scalloc {

// When a span whose blocks are all free leaves the frontend: at the free of its last block, or at
// the next allocation that looks for a span.
enum class Reclaim : long { free, allocation };

// The number of free blocks of a span.
template <typename Span>
int32_t free_blocks(const Span& span) {
  return span.local.free() + span.remote.blocks();
}

// A local and a remote free may be the last two of a span that is not hot. Each counts its own
// block and then reads the other's count, and one of them has to see both. This is a Dekker
// handshake in which local frees are frequent and pay nothing while the remote list is empty. The
// first remote free pays for both, by a heavy fence; after it each local free has a fence, too. A
// remote free that finds the span hot needs none: the owner sees its block when it leaves the span.

// Called by the owner. Returns how many blocks are free, as far as the owner sees.
template <typename Span, typename Block>
int32_t free_cold(Span& span, Block* block, bool asymmetric) {
  const int32_t local = span.local.push_cold(block);
  light_fence(asymmetric);
  int32_t remote = span.remote.blocks();
  if (remote > 0) {
    light_fence(false);
    remote = span.remote.blocks();
  }
  return local + remote;
}

// Called by any other thread. False if the block is on top of the remote list already.
template <typename Span, typename Block>
bool free_remote(Span& span, Block* block, bool asymmetric) {
  const int32_t before = span.remote.push(block);
  // A refused membarrier may lose a span, but no block.
  if (before == 0 && Epoch::state_of(span.epoch.read()) != State::hot) heavy_fence(asymmetric);
  return before >= 0;
}

// If the span is an orphan, the calling thread's LAB (`me`) becomes its owner. Returns the owner.
// `labs.is_terminated(owner)` says whether the owner's LAB has been terminated.
template <typename Labs, typename Span>
uint64_t adopt_orphan(const Labs& labs, Span& span, uint64_t me) {
  uint64_t owner = span.owner.load(kAcquire);  // pairs: scalloc-owner
  while (owner != me && labs.is_terminated(owner)) {
    // pairs: scalloc-owner
    if (span.owner.compare_exchange_strong(owner, me, kAcqRel, kAcquire)) {
      labs.record_adoption();
      return me;
    }
  }
  return owner;
}

// Called after a free in the span, or after it left hot. True if the span is free now and no other
// thread has it: then the caller puts it in the pool.
//   labs.blocks(class): all blocks; labs.reusable_at(class): free ones that make a span reusable
//   labs.set(owner, class): the set of reusable spans
template <typename Labs, typename Span>
bool settle(const Labs& labs, Span& span, uint64_t me, Reclaim reclaim) {
  for (;;) {
    const Epoch::Word old = span.epoch.read();
    const State state = Epoch::state_of(old);
    if (state == State::free || state == State::expected) return false;
    if (state == State::hot) {
      if (!labs.is_terminated(span.owner.load(kAcquire))) return false;  // pairs: scalloc-owner
      // A thread that the fork did not copy held the span.
      span.epoch.try_mark(State::floating, old);
      continue;
    }
    const uint64_t owner = adopt_orphan(labs, span, me);
    const uint32_t size_class = span.size_class.load(kRelaxed);  // relaxed: try_mark checks it
    const int32_t free = free_blocks(span);
    const bool is_empty = free == labs.blocks(size_class);
    if (is_empty && reclaim == Reclaim::free) {
      if (state == State::reusable ? labs.set(owner, size_class).try_free(span, old)
                                   : span.epoch.try_mark(State::free, old)) {
        return true;
      }
      continue;
    }
    if (state == State::reusable || (!is_empty && free < labs.reusable_at(size_class)))
      return false;
    switch (labs.set(owner, size_class).put(owner, span, old)) {
      case ReusableSet<Span>::Put::done:
        return false;
      case ReusableSet<Span>::Put::closed:
        if (!is_empty) return false;
        reclaim = Reclaim::free;  // no allocation will look for it
        break;
      case ReusableSet<Span>::Put::changed:
        break;
    }
  }
}

// The owner leaves its hot span. Frees that saw it hot did nothing more, so this settles the span.
// Returns true as settle() does.
template <typename Labs, typename Span>
bool leave_hot(const Labs& labs, Span& span, uint64_t me, Reclaim reclaim) {
  span.epoch.mark_floating();
  return settle(labs, span, me, reclaim);
}

}  // namespace near::design::scalloc
