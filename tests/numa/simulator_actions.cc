// What virtual threads do, one action at a step.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "heap/registry.h"
#include "nearmalloc/nearmalloc.h"
#include "numa/simulator_play.h"
#include "platform/options.h"
#include "support/fake_os.h"

namespace near_test {

// --- blocks ---

void Simulation::refused(const Placement::Before& before, size_t size) {
  placement_.check_block(me(), before, nullptr, size, false);
  model_.journal.note("refused", {size});
}

// From here on the model has the block; null if it was refused.
void Simulation::take_over(const Placement::Before& before, void* block, size_t size,
                           size_t alignment) {
  if (block == nullptr) return refused(before, size);
  placement_.check_block(me(), before, block, size, false);
  keep(block, size, alignment);
}

void Simulation::keep(void* block, size_t size, size_t alignment) {
  const Journal& journal = model_.journal;
  journal.demand(reinterpret_cast<uintptr_t>(block) % alignment == 0, "a misaligned block",
                 {size, alignment});
  journal.demand(near_malloc_usable_size(block) >= size, "a block that is too small", {size});
  model_.record_place("got", block, size);
  model_.add(static_cast<char*>(block), size, me().number);
}

void Simulation::allocate() {
  if (is_full()) return free_some(random_.below(2) == 0);
  const size_t size = draw_size();
  for (size_t left = draw_count(size); left > 0; left--) {
    const Placement::Before before = Placement::look();
    errno = 0;
    take_over(before, near_malloc(size), size, 8);
  }
}

void Simulation::allocate_zeroed() {
  if (is_full()) return free_some(true);
  const size_t size = draw_size();
  const Placement::Before before = Placement::look();
  errno = 0;
  void* block = near_calloc(1, size);
  model_.journal.demand(block == nullptr || is_zero(block, size), "calloc is not zero", {size});
  take_over(before, block, size, 8);
}

void Simulation::allocate_aligned() {
  if (is_full()) return free_some(true);
  const size_t size = draw_size();
  const size_t alignment = size_t{16} << random_.below(random_.below(4) == 0 ? 17 : 8);  // 1 MiB
  const Placement::Before before = Placement::look();
  errno = 0;
  take_over(before, near_aligned_alloc(alignment, size), size, alignment);
}

void Simulation::resize() {
  const size_t index = draw_block(random_.below(2) == 0);
  if (index == model_.blocks.size()) return;
  const LiveBlock old = model_.blocks[index];
  const Journal& journal = model_.journal;
  journal.demand(is_intact(old), "a block lost its content before realloc", {old.size});
  const size_t drawn =
      random_.below(3) == 0 ? draw_size() : old.size / 2 + random_.below(old.size + 64);
  const size_t size = std::clamp<size_t>(drawn, 1, 4 * near::kMiB);
  const Origin origin = origin_of(old.start);
  const Placement::Before before = Placement::look();
  errno = 0;
  auto* block = static_cast<char*>(near_realloc(old.start, size));
  if (block == nullptr) return refused(before, size);
  if (block == old.start) {
    placement_.check_other(me(), before, errno == ENOMEM);
    model_.journal.note("in place", {size});
  } else {
    placement_.check_block(me(), before, block, size, true);
    model_.record_place("moved", block, size);
    model_.record_free(origin);
  }
  journal.demand(range_holds(block, 0, std::min({old.size, size, kWholeUpTo}), old.pattern),
                 "realloc lost content", {old.size, size});
  model_.replace(index, block, size, me().number);
}

// --- frees ---

void Simulation::free_block(size_t index) {
  const LiveBlock block = model_.remove(index);
  model_.record_place("free", block.start, block.size);
  model_.record_free(origin_of(block.start));
  const Placement::Before before = Placement::look();
  errno = INT_MAX;
  near_free(block.start);
  model_.journal.demand(errno == INT_MAX, "free changed errno", {block.size});
  placement_.check_other(me(), before, false);
}

void Simulation::free_some(bool own) {
  const size_t most = is_rising() ? character_.burst / 4 + 1 : character_.burst;
  for (size_t left = 1 + random_.below(most); left > 0; left--) {
    const size_t index = draw_block(own);
    if (index < model_.blocks.size()) free_block(index);
  }
}

void Simulation::free_own() { free_some(true); }
void Simulation::free_others() { free_some(false); }

void Simulation::free_batch() {
  std::vector<void*> blocks;
  for (size_t left = 1 + random_.below(is_rising() ? 20 : 100); left > 0 && !model_.blocks.empty();
       left--) {
    const LiveBlock block = model_.remove(random_.below(model_.blocks.size()));
    model_.record_place("free", block.start, block.size);
    model_.record_free(origin_of(block.start));
    blocks.push_back(block.start);
  }
  const Placement::Before before = Placement::look();
  const size_t groups = near_free_batch(blocks.data(), blocks.size());
  placement_.check_other(me(), before, false);
  model_.journal.demand(groups <= blocks.size(), "more groups than blocks", {groups});
  model_.journal.count(Event::batch);
  model_.journal.count(Event::batched, blocks.size());
  model_.journal.count(Event::group, groups);
}

// --- threads ---

void Simulation::migrate() {
  const unsigned before = me().node();
  const bool settled = random_.below(100) < character_.settled_percent;
  unsigned cpu = me().cpu;
  for (unsigned tries = 0; tries < 8; tries++) {
    cpu = static_cast<unsigned>(random_.below(model_.world.cpus));
    if ((near::topology.node_of(cpu) == before) == settled) break;
  }
  me().move_to(cpu);
  model_.journal.note("to", {cpu, me().node()});
  if (me().node() != before) model_.journal.count(Event::migration);
}

void Simulation::start_thread() {
  if (model_.threads.size() >= character_.most_threads) return;
  const auto cpu = static_cast<unsigned>(random_.below(model_.world.cpus));
  model_.threads.push_back({++threads_made_, cpu});
  model_.journal.note("new", {threads_made_, cpu});
  model_.journal.count(Event::start);
}

// As the C library does it: rounds of destructors, between which other destructors free and
// allocate, until the heap is given up; then some more rounds.
void Simulation::end_thread() {
  const bool had_heap = is_real(near::current_heap);
  if (had_heap) {
    for (unsigned round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
      if (near::current_heap == &near::exited_heap) break;
      const near::Heap* heap = near::current_heap;
      near::on_thread_exit(near::current_heap);
      const bool given_up = near::current_heap == &near::exited_heap;
      model_.journal.demand(heap->registration.parked == given_up,
                            "a heap that ended is not parked, or too soon", {heap->id()});
      if (random_.below(2) == 0) free_own();
      if (random_.below(4) == 0 && !settling_) allocate();
    }
    model_.journal.demand(near::current_heap == &near::exited_heap, "a thread kept its heap");
  }
  model_.journal.note("end", {had_heap ? 1U : 0U});
  model_.journal.count(Event::exit);
  ended_ = true;
}

// --- the process ---

void Simulation::fork_process() {
  Journal& journal = model_.journal;
  if (!journal.may_fork()) return;
  journal.count(Event::fork);
  journal.prepare_child();
  std::fflush(nullptr);
  const pid_t child = fork();
  journal.demand(child >= 0, "fork failed", {static_cast<uint64_t>(errno)});
  if (child == 0) live_in_child();
  int status = 0;
  journal.demand(waitpid(child, &status, 0) == child, "waitpid failed");
  journal.demand(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child of a fork failed",
                 {static_cast<uint64_t>(status)});
  journal.read_child();
}

// Only the thread that forked is left; the heaps of the others are parked.
void Simulation::live_in_child() {
  constexpr unsigned kSecondsAtMost = 120;
  alarm(kSecondsAtMost);
  model_.journal.become_child();
  const VirtualThread left = me();
  for (const VirtualThread& other : model_.threads) {
    if (other.number == left.number || !is_real(other.heap)) continue;
    model_.journal.demand(other.heap->registration.parked,
                          "a heap of a thread that a fork ended is not parked", {other.heap->id()});
  }
  model_.threads.assign(1, left);
  acting_ = 0;
  me().leave();
  random_ = Random(model_.journal.seed() * 1'000'003 + model_.journal.step());
  checks_.after_step();
  checks_.everything();
  run_steps(50 + random_.below(200));
  finish();
  std::fflush(stdout);
  _exit(0);
}

void Simulation::trim() {
  const uint64_t refusals = fake_os::refusals();
  const Placement::Before before = Placement::look();
  near_malloc_trim(0);
  placement_.check_other(me(), before, false);
  trimmed_ = fake_os::refusals() == refusals;
  model_.journal.count(Event::trim);
}

// Purges as the purge thread does.
void Simulation::tend() {
  near::clean_heaps(false);
  const auto age = static_cast<uint32_t>(near::option(near::Option::decay_ms));
  for (unsigned node = 0; node < near::topology.count; node++)
    near::nodes[node].purge(age, [] { return false; });
}

void Simulation::pass() { pass_time(static_cast<uint32_t>(random_.below(1'500))); }

// The system refuses the n-th call of a kind, or all of them for some steps.
void Simulation::refuse() {
  constexpr OsCall kKinds[] = {OsCall::map, OsCall::unmap, OsCall::purge, OsCall::any};
  const OsCall kind = kKinds[random_.below(std::size(kKinds))];
  const uint64_t nth = 1 + random_.below(3);
  const bool forever = random_.below(4) != 0;
  fake_os::fail_none();
  fake_os::fail(kind, nth, forever);
  refused_until_ = model_.journal.step() + 2 + random_.below(60);
  model_.journal.note("calls", {static_cast<uint64_t>(kind), nth, forever ? 1U : 0U});
}

void Simulation::check() { model_.journal.demand(near_check() == 0, "near_check"); }

}  // namespace near_test
