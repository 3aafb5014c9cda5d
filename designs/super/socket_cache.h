// The object cache of a bin and a socket, between its processors and the global cache: up to P_S
// lists, one for each of its processors. [Kim23 §4.2.1]
//
// An empty one fetches as many lists as it can hold in one access to the global cache; a full one
// gives up half of its lists in one access.
// Thread-safety: any thread, which may hold the lock of a processor's cache.
#pragma once

#include "designs/shared/ranks.h"
#include "designs/super/bin.h"
#include "designs/super/list_cache.h"
#include "designs/super/section.h"

namespace near::design::super {

class alignas(64) SocketCache {
 public:
  struct Totals {
    size_t accesses;  // how often its lock was taken for blocks
    size_t cached;    // blocks
  };

  void start(unsigned bin, BlockList* lists, uint32_t full);

  // Takes a list; empty if memory is refused.
  BlockList take();

  // Keeps the list; returns false and does nothing if neither this cache nor the global one has
  // room.
  bool put(const BlockList& list);
  void trim();
  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  Mutex lock_{design::kMiddleRank};
  unsigned bin_ = 0;
  ListCache lists_;
  size_t accesses_ = 0;
};

// The caches of all sockets, kBins for each; null, with a count of 0, in configurations without.
extern SocketCache* socket_caches;
extern unsigned socket_cache_count;

// False if memory is refused.
bool start_socket_caches();

inline SocketCache& socket_cache(unsigned socket, unsigned bin) {
  return socket_caches[socket * kBins + bin];
}

}  // namespace near::design::super
