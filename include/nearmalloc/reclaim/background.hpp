// A thread that frees for all threads of a domain, so that their operations need not.
//
//   domain<debra<>> home({.reclaim = policy::manual(), .max_unreclaimed_bytes = 64 << 20});
//   background_reclaimer<debra<>> reclaimer(home);   // from here to its end, a thread frees
//
// With policy::manual, operations free nothing; with the other policies both they and the thread
// free. In rounds, the thread takes over what all threads retired, advances the epoch, receives the
// token or reads the slots, and frees what is safe. If a round freed nothing it sleeps: for 1 ms,
// then for up to 64 ms. A thread that holds options::batch_size objects wakes it, at the latest
// after options::operations_between_checks operations; so does one that takes credit when less than
// half of max_unreclaimed_bytes is left.
//
// A program that has a thread to spare calls domain::reclaim_all in it instead: that is one round.
//
// Bound. The thread may fall behind, as one thread frees for many. max_unreclaimed_bytes holds
// nevertheless, as docs/reclamation-bound.md says: at the limit, operations reclaim as at_limit
// says. Without that option, slot schemes keep statistics::bound, since an operation frees what
// exceeds it; all other schemes have no bound while the thread falls behind.
//
// End. The destructor lets the thread end its round, and joins it; what waits then stays in the
// domain, which frees it as usual. Deleters run in the thread, which blocks all signals except
// those that a fault raises; a deleter must neither end the reclaimer nor, in the child of a
// fork that it made, return.
//
// Fork. The child has no such thread. There the object does nothing, its destructor too; the
// program may make another one, or call reclaim_all.
//
// Thread-safety: any thread makes and destroys it, one at a time; a domain has one at most, which
// must end before the domain.
#pragma once

#include <system_error>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/background.hpp"
#include "nearmalloc/reclaim/impl/unguarded.hpp"

namespace near::reclaim {

template <class Scheme>
class background_reclaimer {
 public:
  // Throws std::system_error if the system refuses a thread. Aborts if the domain has a background
  // reclaimer.
  explicit background_reclaimer(domain<Scheme>& of) {
    const int failure = thread_.start(impl::Unguarded::core(of), impl::visit<Scheme>);
    if (failure != 0) throw std::system_error(failure, std::generic_category());
  }
  ~background_reclaimer() { thread_.stop(); }
  background_reclaimer(const background_reclaimer&) = delete;
  background_reclaimer& operator=(const background_reclaimer&) = delete;

 private:
  impl::Background thread_;
};

}  // namespace near::reclaim
