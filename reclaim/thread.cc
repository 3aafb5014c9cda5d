// Threads that use a domain without a handle, numbers of threads, thread exit, and fork.
//
// Invariants: a thread's list has one use for each living domain that the thread used. Such a use
// is in the domain's list, too, and its record is attached. The list also has uses of domains that
// ended: they have serial 0, are in no other list, and are reused before a new one is made. So the
// list is no longer than the most domains the thread used that lived at once. A number belongs to
// at most one living thread, and is smaller than the most threads with a number that lived at once.
// Thread-safety: only its own thread changes a thread's list, except `serial`, which the domain's
// destructor clears; all else is guarded by `domains_lock`.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <new>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "platform/message.h"
#include "reclaim/misuse.h"
#include "reclaim/process.h"

namespace near::reclaim::impl {
namespace {

pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
Core* domains = nullptr;
Atomic<uint64_t> last_serial{0};
thread_local Use* uses = nullptr;
uint64_t numbers_taken[kThreadNumbers / 64] = {};
int32_t forking_thread = 0;
Atomic<uint32_t> forks{0};

pthread_once_t thread_once = PTHREAD_ONCE_INIT;
pthread_key_t exit_key;
bool exit_key_works = false;
thread_local bool exit_is_watched = false;

void link(Use& use, Core& core) {
  use.next_of_core = core.users;
  use.link_of_core = &core.users;
  if (core.users != nullptr) core.users->link_of_core = &use.next_of_core;
  core.users = &use;
}

void unlink(const Use& use) {
  *use.link_of_core = use.next_of_core;
  if (use.next_of_core != nullptr) use.next_of_core->link_of_core = use.link_of_core;
}

// Takes the smallest free number; kThreadNumbers if all are taken.
unsigned take_number() {
  for (unsigned word = 0; word < kThreadNumbers / 64; word++) {
    const auto bit = static_cast<unsigned>(std::countr_one(numbers_taken[word]));
    if (bit == 64) continue;
    numbers_taken[word] |= uint64_t{1} << bit;
    return word * 64 + bit;
  }
  return kThreadNumbers;
}

void give_back_number() {
  const unsigned number = own_number - 1;
  if (own_number != 0 && number < kThreadNumbers) {
    numbers_taken[number / 64] &= ~(uint64_t{1} << number % 64);
  }
  own_number = 0;
}

// Runs when the thread ends. Domains that end meanwhile wait for the lock.
void leave_all(void*) {
  pthread_mutex_lock(&domains_lock);
  Use* use = uses;
  // Comes first, so that signal handlers do not find records that the thread gives up.
  uses = nullptr;
  for (Recent& recent : recents) recent = {};
  std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
  while (use != nullptr) {
    // relaxed: changed under the lock
    if (use->serial.load(kRelaxed) != 0) {
      unlink(*use);
      use->record->core->detach(*use->record);
    }
    Use* next = use->next;
    std::free(use);
    use = next;
  }
  give_back_number();
  give_back_kept_slots();
  exit_is_watched = false;
  pthread_mutex_unlock(&domains_lock);
}

// Called in the child of a fork: frees the uses of threads that the child does not have.
void forget_uses_of_others(Core& core) {
  for (Use* use = core.users; use != nullptr;) {
    Use* next = use->next_of_core;
    if (use->list != &uses) {
      unlink(*use);
      std::free(use);
    }
    use = next;
  }
}

void before_fork() {
  pthread_mutex_lock(&domains_lock);
  lock_retired();
  forking_thread = own_thread();
}
void after_fork_in_parent() {
  unlock_retired();
  pthread_mutex_unlock(&domains_lock);
}
void after_fork_in_child() {
  pthread_mutex_init(&domains_lock, nullptr);
  reset_retired_lock();
  forks.fetch_add(1, kRelaxed);  // relaxed: one thread
  register_membarrier();
  for (Core* core = domains; core != nullptr; core = core->next_core) {
    core->abandon_other_threads(forking_thread);
    forget_uses_of_others(*core);
  }
  for (uint64_t& word : numbers_taken) word = 0;
  const unsigned number = own_number - 1;
  if (own_number != 0 && number < kThreadNumbers) {
    numbers_taken[number / 64] = uint64_t{1} << number % 64;
  }
}

void start() {
  exit_key_works = pthread_key_create(&exit_key, leave_all) == 0;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

extern "C" {
extern void* __dso_handle;  // NOLINT: names of the C library
int __cxa_thread_atexit_impl(void (*function)(void*), void* object, void* dso) noexcept;  // NOLINT
}

}  // namespace

constinit thread_local Recent recents[kRecents] = {};
constinit thread_local unsigned own_number = 0;

// Makes the thread's end call leave_all, by a key: its destructor is called again if the destructor
// of another key uses a domain. If the program has used up all keys, the call comes with the
// destructors of `thread_local` objects, before those of keys: if one of those then uses a domain,
// its record stays attached for ever.
void watch_exit() noexcept {
  if (exit_is_watched) return;
  exit_is_watched = true;
  if (exit_key_works && pthread_setspecific(exit_key, static_cast<void*>(&uses)) == 0) return;
  if (__cxa_thread_atexit_impl(leave_all, nullptr, static_cast<void*>(&__dso_handle)) != 0) {
    fail_with("the end of a thread cannot be noticed: neither keys nor memory are left");
  }
}

int32_t own_thread() noexcept { return static_cast<int32_t>(syscall(SYS_gettid)); }

void fail_with(const char* what) noexcept {
  message("reclaim: %s", what);
  std::abort();
}

uint32_t fork_count() noexcept { return forks.load(kRelaxed); }  // relaxed: no thread saw it change

uint64_t new_serial() noexcept {
  return last_serial.fetch_add(1, kRelaxed) + 1;  // relaxed: a number
}

void enlist(Core& core) noexcept {
  pthread_once(&thread_once, start);
  pthread_mutex_lock(&domains_lock);
  core.next_core = domains;
  domains = &core;
  pthread_mutex_unlock(&domains_lock);
}

uint32_t delist(Core& core) noexcept {
  pthread_mutex_lock(&domains_lock);
  Core** link = &domains;
  while (*link != &core) link = &(*link)->next_core;
  *link = core.next_core;
  uint32_t threads = 0;
  for (Use* use = core.users; use != nullptr; use = use->next_of_core) {
    use->serial.store(0, kRelaxed);  // relaxed: its thread looks for other serials
    threads++;
  }
  core.has_ended = true;
  pthread_mutex_unlock(&domains_lock);
  return threads;
}

unsigned take_thread_number() noexcept {
  pthread_once(&thread_once, start);
  pthread_mutex_lock(&domains_lock);
  const unsigned number = take_number();
  pthread_mutex_unlock(&domains_lock);
  const unsigned shared = static_cast<unsigned>(own_thread()) % kThreadNumbers;
  own_number = 1 + (number < kThreadNumbers ? number : kThreadNumbers + shared);
  watch_exit();
  return own_number - 1;
}

namespace {

Use* find_use(uint64_t serial) {
  Use* use = uses;
  // relaxed: this thread's, or 0 because its domain has ended
  while (use != nullptr && use->serial.load(kRelaxed) != serial) use = use->next;
  return use;
}

// Returns the use of a domain that has ended, or a new one. Null: no memory.
Use* spare_use() {
  if (Use* use = find_use(0)) return use;
  void* room = std::malloc(sizeof(Use));
  if (room == nullptr) return nullptr;
  Use* const use = new (room) Use{.list = &uses, .next = uses};
  std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
  uses = use;
  return use;
}

void begin_use(Use& use, Core& core, Record& record) {
  pthread_mutex_lock(&domains_lock);
  // If the domain has ended, its destructor frees the record.
  if (!core.has_ended) {
    use.record = &record;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
    use.serial.store(core.serial, kRelaxed);              // relaxed: under the lock
    link(use, core);
  }
  pthread_mutex_unlock(&domains_lock);
  watch_exit();
}

}  // namespace

Record* Core::of_this_thread() noexcept {
  Record* record = found();
  if (record == nullptr) {
    Use* const use = spare_use();
    record = use != nullptr ? attach() : nullptr;
    if (record == nullptr) return nullptr;
    begin_use(*use, *this, *record);
  }
  recents[serial % kRecents] = {serial, record};
  return record;
}

Record* Core::found() const noexcept {
  const Use* use = find_use(serial);
  return use != nullptr ? use->record : nullptr;
}

Record& Core::in_handler() noexcept {
  Record* record = found();
  if (record == nullptr) {
    fail_with("a signal handler pins in a domain that its thread has not used");
  }
  return *record;
}

}  // namespace near::reclaim::impl
