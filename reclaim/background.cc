// Reclaims for all threads of a domain: Core::reclaim_all, and the thread that calls it.
// Thread-safety: as impl/background.hpp says.
#include "nearmalloc/reclaim/impl/background.hpp"

#include <csignal>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/inside.h"
#include "reclaim/reclaimer_word.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

// Milliseconds between two rounds of which the first freed nothing. The pause doubles from one to
// the other, and begins anew when objects were freed or a thread wakes the reclaimer.
constexpr uint32_t kShortestPause = 1;
constexpr uint32_t kLongestPause = 64;

// What the new thread blocks: signals that another thread can take. Those that a fault raises in
// the thread itself go to the program's handlers, as in other threads.
sigset_t signals_of_others() noexcept {
  sigset_t signals;
  sigfillset(&signals);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&signals, own);
  }
  return signals;
}

}  // namespace

// Under Token EBR only a thread itself knows when what it retired is safe. So all of it moves to
// this thread, and counts as retired now.
size_t Core::reclaim_all(Record& me, Visit visit) noexcept {
  if (traits.scheme == Scheme::leaky || me.working) return 0;
  const uint64_t before = me.limbo.freed();
  me.due = true;
  if (traits.scheme == Scheme::token) look_at_token_soon(me);
  visit(me);
  {
    const Inside inside(me);
    me.working = true;
    collect_from_others(me, is_robust() || traits.scheme == Scheme::token);
    if (is_robust()) look(me);
    if (has_epochs()) scan_epochs(me, UINT32_MAX);
    if (has_sections()) expire_unheld(me);
    free_now(me, SIZE_MAX);
    me.working = false;
  }
  me.lock.enter(asymmetric);
  return_all_credit(me);
  me.lock.leave();
  return me.limbo.freed() - before;
}

size_t Core::reclaim_all_once(Visit visit) noexcept {
  if (traits.scheme == Scheme::leaky) return 0;
  Record& me = to_wait_with("reclaim_all by a thread that is pinned, or frees", false);
  const size_t freed = reclaim_all(me, visit);
  end_wait(me);
  return freed;
}

void Core::wake_reclaimer() noexcept { ReclaimerWord(reclaimer).wake(); }

int Background::start(Core& core, Visit visit) noexcept {
  ReclaimerWord word(core.reclaimer);
  if (!word.begin()) fail_with("a domain has two background reclaimers");
  core_ = &core;
  visit_ = visit;
  forks_ = fork_count();
  const sigset_t blocked = signals_of_others();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const int failure = pthread_create(&thread_, nullptr, run, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    word.end();
    core_ = nullptr;
  }
  return failure;
}

void Background::stop() noexcept {
  if (core_ == nullptr || forks_ != fork_count()) return;
  if (pthread_equal(thread_, pthread_self()) != 0) {
    fail_with("a background reclaimer is ended by a deleter that it runs");
  }
  ReclaimerWord word(core_->reclaimer);
  word.stop();
  pthread_join(thread_, nullptr);
  word.end();
  core_ = nullptr;
}

void* Background::run(void* self) noexcept {
  static_cast<Background*>(self)->work();
  return nullptr;
}

// After the shortest pause nobody can wake the thread, so that threads which all have work for it
// wake it once in that time. Returns the next pause.
uint32_t Background::rest(uint32_t pause) noexcept {
  ReclaimerWord word(core_->reclaimer);
  if (pause == kShortestPause) {
    word.rest(pause);
    return 2 * pause;
  }
  if (word.sleep(pause)) return kShortestPause;
  return pause < kLongestPause ? 2 * pause : pause;
}

// Deleters use the same record as the thread itself. Between two rounds under QSBR the thread is
// offline, as others would wait for its report.
void Background::work() noexcept {
  uint32_t pause = kShortestPause;
  while (!ReclaimerWord(core_->reclaimer).is_stopping()) {
    Record* const record = core_->of_this_thread();  // null: no memory; perhaps in the next round
    const size_t freed = record != nullptr ? core_->reclaim_all(*record, visit_) : 0;
    if (freed > 0) {
      pause = kShortestPause;
      continue;
    }
    const bool is_away = record != nullptr && core_->has_reports();
    if (is_away) core_->go_offline(*record);
    pause = rest(pause);
    if (is_away) core_->come_online(*record);
  }
}

}  // namespace near::reclaim::impl
