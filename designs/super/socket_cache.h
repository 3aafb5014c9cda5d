// The object cache of a bin and a socket, between its processors and the global cache: up to P_S
// lists, one for each of its processors. [Kim23 §4.2.1]
//
// An empty one fetches as many lists as it may hold in one access to the global cache; a full one
// gives half of them up in one.
// Thread-safety: any thread, also with the lock of a processor's cache held.
#pragma once

#include "designs/shared/ranks.h"
#include "designs/super/bin.h"
#include "designs/super/list_cache.h"
#include "designs/super/section.h"

namespace near::super {

class alignas(64) SocketCache {
 public:
  struct Totals {
    size_t accesses;  // times that its lock was taken for blocks
    size_t cached;    // blocks
  };

  void start(unsigned bin, CachedList* lists, uint32_t full);

  // A list; empty if memory is refused.
  CachedList take();

  // Keeps the list; false, and nothing is done, if there is no room, nor above.
  bool put(const CachedList& list);
  void trim();
  Totals totals();
  Mutex& lock() { return lock_; }

 private:
  Mutex lock_{design::kMiddleRank};
  unsigned bin_ = 0;
  ListCache lists_;
  size_t accesses_ = 0;
};

// Those of all sockets, kBins of each; null, and 0 of them, in a configuration without.
extern SocketCache* socket_caches;
extern unsigned socket_cache_count;

// False if memory is refused.
bool start_socket_caches();

inline SocketCache& socket_cache(unsigned socket, unsigned bin) {
  return socket_caches[socket * kBins + bin];
}

}  // namespace near::super
