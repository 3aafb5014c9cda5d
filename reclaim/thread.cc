// Threads that use a domain without a handle, thread exit, and fork.
//
// Invariant: a thread's list names each domain it used at most once, by serial number, so that a
// domain that is gone is never touched. Whatever a list names of a domain that lives is attached.
// Who may touch it: the list its thread; the domains' list whoever holds `domains_lock`.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "platform/message.h"
#include "reclaim/process.h"

namespace near::reclaim::impl {
namespace {

struct Use {
  uint64_t serial;
  Record* record;
  Use* next;
};

pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
Core* domains = nullptr;
Atomic<uint64_t> last_serial{0};
thread_local Use* uses = nullptr;
int32_t forking_thread = 0;

pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_key_t exit_key;
bool exit_key_works = false;

Core* find(uint64_t serial) {
  Core* core = domains;
  while (core != nullptr && core->serial != serial) core = core->next_core;
  return core;
}

// Domains that end meanwhile wait for the lock.
void leave_all(void*) {
  pthread_mutex_lock(&domains_lock);
  Use* use = uses;
  // First: handlers of signals do not find what is no longer theirs.
  uses = nullptr;
  for (Recent& recent : recents) recent = {};
  std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
  while (use != nullptr) {
    Core* core = find(use->serial);
    if (core != nullptr) core->detach(*use->record);
    Use* next = use->next;
    std::free(use);
    use = next;
  }
  pthread_mutex_unlock(&domains_lock);
}

void before_fork() {
  pthread_mutex_lock(&domains_lock);
  forking_thread = own_thread();
}
void after_fork_in_parent() { pthread_mutex_unlock(&domains_lock); }
void after_fork_in_child() {
  pthread_mutex_init(&domains_lock, nullptr);
  register_membarrier();
  for (Core* core = domains; core != nullptr; core = core->next_core) {
    core->abandon_other_threads(forking_thread);
  }
}

void start() {
  exit_key_works = pthread_key_create(&exit_key, leave_all) == 0;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace

constinit thread_local Recent recents[kRecents] = {};

int32_t own_thread() noexcept { return static_cast<int32_t>(syscall(SYS_gettid)); }

void fail_with(const char* what) noexcept {
  message("reclaim: %s", what);
  std::abort();
}

uint64_t new_serial() noexcept {
  return last_serial.fetch_add(1, kRelaxed) + 1;  // relaxed: a number
}

void enlist(Core& core) noexcept {
  pthread_once(&once, start);
  pthread_mutex_lock(&domains_lock);
  core.next_core = domains;
  domains = &core;
  pthread_mutex_unlock(&domains_lock);
}

void delist(Core& core) noexcept {
  pthread_mutex_lock(&domains_lock);
  Core** link = &domains;
  while (*link != &core) link = &(*link)->next_core;
  *link = core.next_core;
  pthread_mutex_unlock(&domains_lock);
}

Record* Core::of_this_thread() noexcept {
  Record* record = nullptr;
  for (const Use* use = uses; use != nullptr && record == nullptr; use = use->next) {
    if (use->serial == serial) record = use->record;
  }
  if (record == nullptr) {
    auto* use = static_cast<Use*>(std::malloc(sizeof(Use)));
    record = use != nullptr ? attach() : nullptr;
    if (record == nullptr) {
      std::free(use);
      return nullptr;
    }
    *use = {serial, record, uses};
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
    uses = use;
    if (exit_key_works) pthread_setspecific(exit_key, static_cast<void*>(&uses));
  }
  recents[serial % kRecents] = {serial, record};
  return record;
}

Record& Core::in_handler() noexcept {
  const Use* use = uses;
  while (use != nullptr && use->serial != serial) use = use->next;
  if (use == nullptr) fail_with("a signal handler pins in a domain that its thread has not used");
  return *use->record;
}

}  // namespace near::reclaim::impl
