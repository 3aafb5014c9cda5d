#include "node/node.h"

#include <new>

#include "base/bits.h"
#include "node/bind.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr size_t kPoolStep = 64 * kKiB;
constexpr unsigned kPoolSteps = 64;  // at once, one for each shard that there may be
constexpr size_t kPoolUnit = 128;    // two lines: neighbours share none
// A shard with less dirty memory lends none: its own threads will need that soon.
constexpr uint32_t kLends = kChunkSlices;

alignas(128) constinit Atomic<size_t> metadata_taken{0};

}  // namespace

void Node::init(unsigned number, unsigned most) {
  number_ = number;
  most_ = most;
  first_.init(*this, 0);
}

// --- taking ---

// Takes a run from another shard that has much dirty memory, and whose lock is free.
Span* Node::borrow(const Shard& home, const RunRequest& request, bool& zero) {
  const unsigned count = shard_count();
  for (unsigned i = 1; i < count; i++) {
    Shard& other = shard((home.number() + i) % count);
    if (other.spare() < max_of(kLends, request.slices)) continue;
    if (Span* span = other.try_take_mapped(request, zero)) return span;
  }
  return nullptr;
}

// Takes a run from any other shard, shard 0 first. Ends when the system refuses memory.
Span* Node::take_anywhere(const Shard& home, const RunRequest& request, bool& zero) {
  bool refused = false;
  for (unsigned i = 0; i < shard_count() && !refused; i++) {
    if (i == home.number()) continue;
    if (Span* span = shard(i).take(request, zero, refused)) return span;
  }
  for (unsigned i = 0; i < shard_count() && refused; i++) {
    if (Span* span = shard(i).take_mapped(request, zero)) return span;
  }
  return nullptr;
}

Span* Node::take(Shard& home, const RunRequest& request, bool& zero) {
  Shard& chosen = request.slices <= kMostSharded ? home : first_;
  if (Span* span = chosen.take_mapped(request, zero)) return span;
  if (Span* span = borrow(chosen, request, zero)) return span;
  bool refused = false;
  if (Span* span = chosen.take(request, zero, refused)) return span;
  return shard_count() == 1 ? nullptr : take_anywhere(chosen, request, zero);
}

// --- all shards ---

size_t Node::purge(uint32_t age_ms, bool (*is_over)()) {
  size_t purged = 0;
  for (unsigned i = 0; i < shard_count() && !is_over(); i++) {
    shard(i).count_spare();
    purged += shard(i).purge(age_ms, 0, is_over);
  }
  return purged;
}

size_t Node::trim(size_t keep_bytes) {
  size_t purged = 0;
  for_each_shard([&](Shard& each) { purged += each.trim(keep_bytes / shard_count()); });
  return purged;
}

// Memory that was made resident in advance is shard 0's; the others borrow it.
void Node::keep(size_t bytes) { first_.keep(bytes); }

void Node::obey_limits() {
  for_each_shard([](Shard& each) { each.obey_limits(); });
}

bool Node::has_room(uint32_t slices) {
  bool has = false;
  for_each_shard([&](Shard& each) { has = has || each.has_room(slices); });
  return has;
}

size_t Node::dirty_bytes() {
  size_t sum = 0;
  for_each_shard([&](Shard& each) { sum += each.dirty_bytes(); });
  return sum;
}

bool Node::has_unused() {
  bool has = false;
  for_each_shard([&](Shard& each) { has |= each.has_unused(); });
  return has;
}

uint64_t Node::gives() {
  uint64_t sum = 0;
  for_each_shard([&](const Shard& each) { sum += each.gives(); });
  return sum;
}

Shard::Totals Node::totals() {
  Shard::Totals sum{};
  for_each_shard([&](Shard& each) { sum += each.totals(); });
  return sum;
}

size_t Node::check() {
  size_t wrong = 0;
  for_each_shard([&](Shard& each) { wrong += each.check(); });
  return wrong;
}

// --- the allocator's own structures ---

// Maps a block of the pool, whose first piece has `bytes`. Null if refused.
BumpPool::Block* Node::map_pool(size_t bytes) {
  const size_t least = align_up(bytes + kPoolUnit, kPoolStep);
  // Larger steps where there can be many heaps: fewer system calls while threads wait for the lock.
  size_t step = max_of(least, kPoolStep * min_of(most_, kPoolSteps));
  void* start = os::map_anywhere(step, os::page_size());
  if (start == nullptr && step > least) {
    step = least;
    start = os::map_anywhere(step, os::page_size());
  }
  if (start == nullptr) return nullptr;
  bind_to(number_, start, step);
  if (step >= kChunkSize) os::advise_huge_pages(start, step, false);  // most of it stays untouched
  return new (start) BumpPool::Block{step, {kPoolUnit + bytes}, pool_.newest()};
}

void* Node::take_metadata(size_t bytes) {
  bytes = align_up(bytes, kPoolUnit);
  void* taken = pool_.take(bytes, lock_, [&] { return map_pool(bytes); });
  if (taken != nullptr) metadata_taken.fetch_add(bytes, kRelaxed);  // relaxed: a statistic
  return taken;
}

size_t metadata_bytes() { return metadata_taken.load(kRelaxed); }  // relaxed: a statistic

// --- fork ---

void Node::lock_growing_for_fork() {
  making.lock_for_fork();
  for_each_shard([](Shard& each) { each.growing.lock_for_fork(); });
}

void Node::unlock_growing_for_fork() {
  for_each_shard([](Shard& each) { each.growing.unlock_for_fork(); });
  making.unlock_for_fork();
}

void Node::lock_for_fork() {
  lock_.lock_for_fork();
  for_each_shard([](Shard& each) { each.lock.lock_for_fork(); });
}

void Node::unlock_for_fork() {
  for_each_shard([](Shard& each) { each.lock.unlock_for_fork(); });
  lock_.unlock_for_fork();
}

void Node::restore_withdrawn() {
  for_each_shard([](Shard& each) { each.restore_withdrawn(); });
}

}  // namespace near
