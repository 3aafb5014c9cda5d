#include "nearmalloc/reclaim/impl/limbo.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "nearmalloc/reclaim/impl/record.hpp"
#include "reclaim/misuse.h"

namespace near::reclaim::impl {

void Bag::append(Bag& other) {
  if (other.first != nullptr) {
    (last != nullptr ? last->next : first) = other.first;
    last = other.last;
  }
  objects += other.objects;
  bytes += other.bytes;
  other.clear();
}

void Bag::clear() {
  first = last = nullptr;
  objects = 0;
  bytes = 0;
}

void Bag::push_block(EntryBlock* block) {
  block->next = first;
  first = block;
  if (last == nullptr) last = block;
}

EntryBlock* Limbo::take_spare() noexcept {
  EntryBlock* block = spares_;
  if (block != nullptr) {
    spares_ = block->next;
    spare_count_--;
  } else {
    block = static_cast<EntryBlock*>(memory->allocate(block_bytes(), memory->context));
    if (block == nullptr) return nullptr;
  }
  block->next = nullptr;
  block->count = 0;
  return block;
}

void Limbo::keep_spare(EntryBlock* block) noexcept {
  if (spare_count_ == kSpares) return give_back(block);
  block->next = spares_;
  spares_ = block;
  spare_count_++;
}

bool Limbo::add_block() noexcept {
  EntryBlock* block = take_spare();
  if (block == nullptr) return false;
  current_->push_block(block);
  return true;
}

void Limbo::expire(uint64_t now, unsigned distance) noexcept {
  for (unsigned i = 0; i < distance; i++) {
    if (bags_[i].label + distance <= now) ended().append(bags_[i]);
  }
}

void Limbo::advance(uint64_t now, unsigned distance) noexcept {
  expire(now, distance);
  current_ = &bags_[now % distance];
  current_->label = now;
}

void Limbo::expire_all() noexcept {
  for (Bag& bag : bags_) ended().append(bag);
}

namespace {

// While the deleter runs it may pin and retire, as the program does.
void run_deleter(const Entry& entry, Record* owner) noexcept {
  if (owner == nullptr) return entry.destroy(entry.object);
  const uint32_t before = owner->stay.leave_library();
  owner->lock.open();
  entry.destroy(entry.object);
  owner->lock.close();
  owner->stay.restore(before);
}

}  // namespace

size_t Limbo::free_expired(size_t most, const FreeRun& run, Record* owner) noexcept {
  void* blocks[kRun];
  size_t gathered = 0;
  size_t freed = 0;
  const auto hand_over = [&] {
    if (gathered > 0) run.many(blocks, gathered);
    gathered = 0;
  };
  const bool are_noted = notes_retired();
  // A deleter may retire, and so change every list: keep only a copy of this entry meanwhile.
  while (freed < most && expired_.objects > 0) {
    EntryBlock* block = expired_.first;
    const Entry entry = block->entries[--block->count];
    const uint32_t entry_bytes = block->bytes[block->count];
    expired_.objects--;
    expired_.bytes -= entry_bytes;
    credit += entry_bytes;
    if (block->count == 0) {
      expired_.first = block->next;
      if (expired_.first == nullptr) expired_.last = nullptr;
      keep_spare(block);
    }
    freed++;
    if (are_noted) forget_retired(entry.object);
    if (run.many != nullptr && entry.destroy == run.one) {
      blocks[gathered++] = entry.object;
      if (gathered == kRun) hand_over();
    } else {
      run_deleter(entry, owner);
    }
  }
  hand_over();
  count(freed_, freed);
  return freed;
}

void Limbo::exchange(EntryBlock& block, uint32_t i, uint32_t k) const noexcept {
  std::swap(block.entries[i], block.entries[k]);
  std::swap(block.bytes[i], block.bytes[k]);
  if (is_dated) std::swap(life_of(block, i), life_of(block, k));
}

// Requires that there is room.
void Limbo::move_last(EntryBlock& from, EntryBlock& to) const noexcept {
  from.count--;
  to.entries[to.count] = from.entries[from.count];
  to.bytes[to.count] = from.bytes[from.count];
  if (is_dated) life_of(to, to.count) = life_of(from, from.count);
  to.count++;
}

// Leaks what is in the block from `first` on.
void Limbo::lose_from(EntryBlock& block, uint32_t first) noexcept {
  count(lost_, block.count - first);
  for (; block.count > first; block.count--) credit += block.bytes[block.count - 1];
}

void Limbo::give_count(uint64_t objects, Limbo& to) noexcept {
  count(to.retired_, objects);
  count(retired_, -objects);
}

void Limbo::give_ended(Limbo& to) noexcept {
  give_count(waiting() + aged(), to);
  to.expired_.append(expired_);
  to.aged_.append(aged_);
}

void Limbo::give_all_safe(Limbo& to) noexcept {
  expire_all();
  give_ended(to);
}

void Limbo::give_safe(uint64_t now, unsigned distance, Limbo& to) noexcept {
  expire(now, distance);
  give_ended(to);
}

void Limbo::give_all_held(Limbo& to) noexcept {
  give_ended(to);
  give_count(held(), to);
  for (Bag& bag : bags_) to.current_->append(bag);
}

Births Limbo::births() noexcept {
  Births births{UINT64_MAX, 0};
  for (const Bag& bag : bags_) {
    for (EntryBlock* block = bag.first; block != nullptr; block = block->next) {
      for (uint32_t i = 0; i < block->count; i++) {
        const uint64_t birth = life_of(*block, i).birth;
        births = {std::min(births.earliest, birth), std::max(births.latest, birth)};
      }
    }
  }
  return births;
}

void Limbo::take_out(uint64_t born_until, Bag& batch) noexcept {
  if (born_until >= births().latest) {
    for (Bag& bag : bags_) batch.append(bag);
  } else {
    sift([&](EntryBlock& block, uint32_t i) { return life_of(block, i).birth > born_until; },
         batch);
  }
  count(retired_, -batch.objects);
}

void Limbo::take_in(Bag& batch) noexcept {
  count(retired_, batch.objects);
  expired_.append(batch);
}

void Limbo::lose_all() noexcept {
  const uint64_t left = unreclaimed();
  credit += static_cast<int64_t>(bytes());
  for (Bag& bag : bags_) bag.clear();
  aged_.clear();
  expired_.clear();
  spares_ = nullptr;
  spare_count_ = 0;
  count(lost_, left);
}

void Limbo::free_spares() noexcept {
  while (spares_ != nullptr) give_back(std::exchange(spares_, spares_->next));
  spare_count_ = 0;
}

size_t Limbo::bytes() const {
  size_t sum = expired_.bytes + aged_.bytes;
  for (const Bag& bag : bags_) sum += bag.bytes;
  return sum;
}

size_t Limbo::held() const {
  size_t objects = aged_.objects;
  for (const Bag& bag : bags_) objects += bag.objects;
  return objects;
}

uint64_t Limbo::unreclaimed() const {
  // Reads freed first: a count that grows meanwhile makes the difference too large, never negative.
  const uint64_t gone = freed() + lost();
  const uint64_t all = retired();
  return all > gone ? all - gone : 0;
}

void Limbo::record_run(uint64_t objects) noexcept {
  // relaxed: only the owner writes; read for statistics
  if (objects > longest_run_.load(kRelaxed)) longest_run_.store(objects, kRelaxed);
}

}  // namespace near::reclaim::impl
