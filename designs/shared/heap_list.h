// The heaps of threads, whatever a design calls them: all that were made, and the idle ones, which
// ended threads gave back and which the next threads take whole.
//
// In the child of a fork the heaps of the other threads become idle. Their threads may have stopped
// between any two stores, so they are marked as orphans, which the next thread repairs first.
// Invariant: a heap is idle, or one living thread has it; heaps are never freed.
// Thread-safety: any thread; guarded by the lock, except what one thread does with the heap that it
// has.
#pragma once

#include <cstddef>

#include "designs/shared/ranks.h"

namespace near::design {

// A member of `Heap` with the name `links`.
template <typename Heap>
struct HeapLinks {
  Heap* next_of_all = nullptr;
  Heap* next_idle = nullptr;
  bool is_idle = false;
  bool is_orphan = false;  // read and cleared by the thread that has the heap
};

template <typename Heap>
class HeapList {
 public:
  constexpr explicit HeapList(Rank rank) : lock_(rank) {}

  // The idle heap that was given back last, or the one that make() returns; null if that is null.
  // make() is called under the lock.
  template <typename Make>
  Heap* take(Make make) {
    const LockGuard guard(lock_);
    Heap* heap = idle_;
    if (heap != nullptr) {
      idle_ = heap->links.next_idle;
      heap->links.is_idle = false;
      return heap;
    }
    heap = make();
    if (heap == nullptr) return nullptr;
    heap->links.next_of_all = all_;
    all_ = heap;
    made_++;
    return heap;
  }

  // Takes back the heap of the calling thread.
  void give(Heap* heap) {
    const LockGuard guard(lock_);
    file(heap);
  }

  // Called in the child of a fork that holds the lock: all heaps except that of the only thread
  // become idle.
  void adopt_others(const Heap* mine) {
    for (Heap* heap = all_; heap != nullptr; heap = heap->links.next_of_all) {
      if (heap == mine || heap->links.is_idle) continue;
      heap->links.is_orphan = true;
      file(heap);
    }
  }

  // Calls visit(heap) for all heaps, under the lock.
  template <typename Visit>
  void for_each(Visit visit) {
    const LockGuard guard(lock_);
    for (Heap* heap = all_; heap != nullptr; heap = heap->links.next_of_all) visit(*heap);
  }

  // How many there are, including idle ones.
  size_t made() {
    const LockGuard guard(lock_);
    return made_;
  }
  Mutex& lock() { return lock_; }

 private:
  void file(Heap* heap) {
    heap->links.is_idle = true;
    heap->links.next_idle = idle_;
    idle_ = heap;
  }

  Mutex lock_;
  Heap* all_ = nullptr;
  Heap* idle_ = nullptr;
  size_t made_ = 0;
};

}  // namespace near::design
