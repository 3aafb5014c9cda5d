// Locking the owner of something that may change its owner meanwhile: a page or a superblock, whose
// heap gives it to another heap.
//
// Protocol: the word that names the owner changes only under the locks of both owners. A thread
// reads it, takes that owner's lock and reads it again: the second answer stays true until the
// thread unlocks. [Berger00 §3, free]
// Thread-safety: any thread.
#pragma once

#include "base/atomic.h"
#include "sync/mutex.h"

namespace near::design {

// Returns the owner, with its lock held. `lock_of(owner)` is the lock of that owner.
template <typename Owner, typename LockOf>
Owner lock_owner(const Atomic<Owner>& word, LockOf lock_of) {
  while (true) {
    const Owner owner = word.load(kRelaxed);  // relaxed: read again under the lock
    Mutex& lock = lock_of(owner);
    lock.lock();
    // relaxed: all changes from this owner to another happen under this lock
    if (word.load(kRelaxed) == owner) return owner;
    lock.unlock();
  }
}

}  // namespace near::design
