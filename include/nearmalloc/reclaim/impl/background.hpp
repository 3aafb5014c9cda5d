// The thread of a background reclaimer, without the type of its scheme; compiled in
// reclaim/background.cc.
//
// reclaim/reclaimer_word.h has the protocol by which the thread sleeps, is woken and ends.
// Thread-safety: start and stop: one thread at a time.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "nearmalloc/reclaim/impl/core.hpp"

namespace near::reclaim::impl {

class Background {
 public:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Returns 0 or an error number. Aborts if the domain has a background reclaimer.
  int start(Core& core, Visit visit) noexcept;
  // Ends the thread, and waits for it. Does nothing in a child that was forked since `start`, or if
  // there is no thread.
  void stop() noexcept;

 private:
  static void* run(void* self) noexcept;
  void work() noexcept;
  uint32_t rest(uint32_t pause) noexcept;

  Core* core_ = nullptr;  // null: there is no thread
  Visit visit_ = nullptr;
  uint32_t forks_ = 0;  // fork_count() at the start
  pthread_t thread_ = {};
};

}  // namespace near::reclaim::impl
