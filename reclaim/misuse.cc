#include "reclaim/misuse.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/process.h"

namespace near::reclaim::impl {
namespace {

struct Note {
  const void* object;
  Note* next;
};

constexpr unsigned kListsLog2 = 16;

pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;
Note* notes[1u << kListsLog2] = {};
Atomic<bool> any{false};

// Returns the link to the object's note, or the null link at the end of its list.
Note** find(const void* object) {
  const uint64_t mixed = reinterpret_cast<uintptr_t>(object) * 0x9E3779B97F4A7C15u;
  Note** link = &notes[mixed >> (64 - kListsLog2)];
  while (*link != nullptr && (*link)->object != object) link = &(*link)->next;
  return link;
}

}  // namespace

void expect_own(const Record& record) noexcept {
  if (record.user != this_user()) {
    fail_with("a guard or handle is used by another thread, which did not adopt the handle");
  }
  if (record.is_offline) fail_with("a thread uses a domain inside its offline_scope");
}

// If there is no memory for a note, the object is not noted.
void record_retired(const void* object) noexcept {
  if (object == nullptr) fail_with("retire of a null pointer");
  any.store(true, kRelaxed);  // relaxed: this object is freed after its retirement
  pthread_mutex_lock(&notes_lock);
  Note** link = find(object);
  if (*link != nullptr) fail_with("an object is retired that was retired before");
  void* room = std::malloc(sizeof(Note));
  if (room != nullptr) *link = new (room) Note{object, nullptr};
  pthread_mutex_unlock(&notes_lock);
}

bool notes_retired() noexcept { return any.load(kRelaxed); }  // relaxed: see record_retired

void forget_retired(const void* object) noexcept {
  pthread_mutex_lock(&notes_lock);
  Note** link = find(object);
  if (Note* note = *link; note != nullptr) {
    *link = note->next;
    std::free(note);
  }
  pthread_mutex_unlock(&notes_lock);
}

void lock_retired() noexcept { pthread_mutex_lock(&notes_lock); }
void unlock_retired() noexcept { pthread_mutex_unlock(&notes_lock); }
void reset_retired_lock() noexcept { pthread_mutex_init(&notes_lock, nullptr); }

}  // namespace near::reclaim::impl
