#include "designs/scalloc/lab.h"

#include <new>

#include "designs/scalloc/frontend.h"
#include "designs/shared/arena.h"
#include "designs/shared/machine.h"
#include "sync/mutex.h"

namespace near::design::scalloc {
namespace {

constexpr size_t kRoom = size_t{1} << 20;  // LABs; halved if addresses are scarce
constexpr size_t kLeastRoom = 64;
constexpr size_t kStep = 64 * kKiB;

constinit Arena labs;
constinit Mutex labs_lock{kMiddleRank};
// Guarded by the lock, except `made`, which any thread reads.
Atomic<uint32_t> made{0};
Atomic<uint32_t> most_open{0};
uint32_t open_now = 0;
uint32_t threads_entered = 0;
Lab* idle = nullptr;

// The calling thread's number, from 1 on: with CLABs it gets the same LAB whenever it enters.
__thread uint32_t thread_number NEAR_TLS_INITIAL_EXEC = 0;

Lab& lab_at(uint32_t index) { return reinterpret_cast<Lab*>(labs.start())[index]; }

// Called under the lock. Makes a terminated LAB; null if memory is refused.
Lab* make_lab() {
  void* room = labs.take(sizeof(Lab));
  if (room == nullptr) return nullptr;
  Lab* lab = new (room) Lab;
  lab->index = made.load(kRelaxed);      // relaxed: changed under the lock only
  made.store(lab->index + 1, kRelease);  // pairs: scalloc-labs
  return lab;
}

// Called under the lock.
void open(Lab& lab) {
  const uint64_t owner = uint64_t{++lab.openings} << 32 | lab.index;
  for (ReusableSet<Span>& set : lab.reusable) set.open(owner);
  lab.owner.store(owner, kRelease);  // pairs: scalloc-lab-owner
  // relaxed: changed under the lock only
  if (++open_now > most_open.load(kRelaxed)) most_open.store(open_now, kRelaxed);
}

// Called by the owner, or in the child of a fork, when no other thread uses the LAB.
// [Aigner15 listing 3, terminate]
void terminate(Lab& lab) {
  for (unsigned i = 1; i < kClasses; i++) {
    lab.reusable[i].close();
    drop_hot(lab, i);
    while (Span* span = lab.reusable[i].take(State::floating)) settle_and_pool(lab, *span);
  }
  lab.owner.store(kNobody, kRelease);  // pairs: scalloc-lab-owner
}

Lab* take_tlab() {
  const LockGuard guard(labs_lock);
  Lab* lab = idle;
  if (lab != nullptr) {
    idle = lab->next_idle;
  } else if (lab = make_lab(); lab == nullptr) {
    return nullptr;
  }
  lab->users = 1;
  open(*lab);
  return lab;
}

Lab* take_clab() {
  const LockGuard guard(labs_lock);
  if (thread_number == 0) thread_number = ++threads_entered;
  const uint32_t wanted = (thread_number - 1) % processors();
  while (made.load(kRelaxed) <= wanted) {  // relaxed: changed under the lock only
    if (make_lab() == nullptr) return nullptr;
  }
  Lab& lab = lab_at(wanted);
  if (lab.users++ == 0) open(lab);
  return &lab;
}

}  // namespace

constinit Span no_span;
constinit Lab no_lab;
__thread Lab* current_lab NEAR_TLS_INITIAL_EXEC = &no_lab;
__thread Lab* core_lab NEAR_TLS_INITIAL_EXEC = nullptr;

bool reserve_labs() {
  if (labs.size() != 0) return true;  // an earlier start was refused later
  const size_t least = align_up(kLeastRoom * sizeof(Lab), kStep);
  return labs.reserve(align_up(kRoom * sizeof(Lab), kStep), least, kStep, kStep);
}

bool enter_lab() {
  if (settings.lab == LabModel::clab) {
    core_lab = take_clab();
    return core_lab != nullptr;
  }
  Lab* lab = take_tlab();
  if (lab == nullptr) return false;
  current_lab = lab;
  return true;
}

void leave_lab() {
  const bool is_shared = settings.lab == LabModel::clab;
  Lab& lab = is_shared ? *core_lab : *current_lab;
  current_lab = &no_lab;
  core_lab = nullptr;
  if (!is_shared) terminate(lab);
  const LockGuard guard(labs_lock);
  if (--lab.users > 0) return;
  open_now--;
  if (is_shared) return terminate(lab);
  lab.next_idle = idle;
  idle = &lab;
}

Lab& lab_of(uint64_t owner) { return lab_at(static_cast<uint32_t>(owner)); }

uint32_t most_labs() { return most_open.load(kRelaxed); }  // relaxed: a hint
uint32_t labs_made() { return made.load(kRelaxed); }       // relaxed: a hint

uint64_t count_events(Event event) {
  uint64_t sum = 0;
  const uint32_t count = made.load(kAcquire);  // pairs: scalloc-labs
  for (uint32_t i = 0; i < count; i++) {
    // relaxed: a statistic
    sum += lab_at(i).events[static_cast<unsigned>(event)].load(kRelaxed);
  }
  return sum;
}

void lock_labs_for_fork() {
  labs_lock.lock_for_fork();
  for (uint32_t i = 0; i < made.load(kRelaxed); i++) {  // relaxed: under the lock
    lab_at(i).lock.lock_for_fork();
  }
  // A thread that holds a LAB's lock may wait for another LAB's set.
  for (uint32_t i = 0; i < made.load(kRelaxed); i++) {  // relaxed: as above
    for (ReusableSet<Span>& set : lab_at(i).reusable) set.lock_for_fork();
  }
}

void unlock_labs_after_fork(bool child) {
  for (uint32_t i = 0; i < made.load(kRelaxed); i++) {  // relaxed: under the lock
    Lab& lab = lab_at(i);
    for (ReusableSet<Span>& set : lab.reusable) set.unlock_for_fork();
    lab.lock.unlock_for_fork();
  }
  labs_lock.unlock_for_fork();
  if (!child) return;
  for (uint32_t i = 0; i < made.load(kRelaxed); i++) {  // relaxed: no other thread exists
    Lab& lab = lab_at(i);
    if (lab.users == 0 || &lab == current_lab) continue;
    if (&lab == core_lab) {
      lab.users = 1;
      continue;
    }
    lab.users = 0;
    open_now--;
    terminate(lab);
    if (settings.lab == LabModel::clab) continue;
    lab.next_idle = idle;
    idle = &lab;
  }
}

}  // namespace near::design::scalloc
