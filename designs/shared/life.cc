// Compiled for each design: see this_design.h in its folder.
#include "designs/shared/life.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>

#include "base/atomic.h"
#include "designs/shared/design.h"
#include "designs/shared/machine.h"
#include "designs/shared/ranks.h"
#include "designs/shared/summary.h"
#include "platform/message.h"
#include "platform/options.h"
#include "platform/saved_errno.h"
#include "sync/mutex.h"
#include "this_design.h"

namespace near::design {

static_assert(Design<ThisDesign>);

namespace {

// As in front/thread.cc: TSan ends its record of a thread in the last round, so leave before.
constexpr uint8_t kExitRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 1 - (NEAR_TSAN ? 1 : 0);

// How many frees of a thread that has allocated nothing are served in a stay each: more than the C
// library makes when it cleans up after a thread, and too few to slow a thread that mostly frees.
constexpr uint8_t kVisits = 16;

enum class Stage : uint8_t { outside, inside, over };

__thread Stage stage NEAR_TLS_INITIAL_EXEC = Stage::outside;
__thread uint8_t exit_rounds NEAR_TLS_INITIAL_EXEC = 0;
__thread uint8_t visits NEAR_TLS_INITIAL_EXEC = 0;

constinit Mutex start_lock{kOuterRank};
constinit Atomic<bool> started{false};
pthread_key_t exit_key;
bool have_exit_key = false;
constinit TextOption switches{"design_options", nullptr};

void on_thread_exit(void* value) {
  if (++exit_rounds < kExitRounds) {
    pthread_setspecific(exit_key, value);
    return;
  }
  if (stage == Stage::inside) ThisDesign::thread_exit();
  stage = Stage::over;
}

void before_fork() {
  start_lock.lock_for_fork();
  ThisDesign::lock_for_fork();
}

void after_fork_in_parent() {
  ThisDesign::unlock_after_fork(false);
  start_lock.unlock_for_fork();
}

void after_fork_in_child() {
  ThisDesign::unlock_after_fork(true);
  start_lock.unlock_for_fork();
}

void handle_forks() {
  static constinit Atomic<bool> done{false};
  if (done.exchange(true, kRelaxed)) return;  // relaxed: publishes nothing
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

// Runs in a constructor, because the environment is known then. The first allocation may come
// before the C library's own constructor.
__attribute__((constructor)) void finish_start(int, char**, char** environment) {
  read_options(environment, &switches);
  if (!start()) return;
  handle_forks();
  ThisDesign::configure();
  if (option(Option::stats) == 0) return;
  keep_stderr();
  atexit(print_summary);
}

}  // namespace

NEAR_COLD bool start() {
  if (started.load(kAcquire)) return true;  // pairs: design-started
  const SavedErrno saved;
  const LockGuard guard(start_lock);
  if (started.load(kRelaxed)) return true;  // relaxed: changed under the lock only
  read_options(environ, &switches);
  read_switches(ThisDesign::kName, switches.value, ThisDesign::switches());
  read_machine();
  if (!ThisDesign::start()) return false;
  have_exit_key = pthread_key_create(&exit_key, on_thread_exit) == 0;
  started.store(true, kRelease);  // pairs: design-started
  return true;
}

NEAR_COLD bool enter_thread(Errand errand) {
  if (!start() || !ThisDesign::thread_enter()) return false;
  if (stage == Stage::over) return true;
  if (errand == Errand::free && visits < kVisits) {
    visits++;
    return true;
  }
  stage = Stage::inside;
  const SavedErrno saved;
  handle_forks();
  if (have_exit_key) pthread_setspecific(exit_key, &exit_key);
  return true;
}

NEAR_COLD void leave_if_visiting() {
  if (stage != Stage::inside) ThisDesign::thread_exit();
}

}  // namespace near::design
