#include "fuzz/api_table.h"

#include <nearmalloc/nearmalloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuzz/harness.h"
#include "support/pattern.h"

namespace near_test::fuzz {
namespace {

constexpr size_t kRemembered = 64;  // addresses that were freed

uintptr_t address(const void* block) { return reinterpret_cast<uintptr_t>(block); }

// Calls `step(from, to)` for the bytes of a block that hold its pattern: all of a small block; of a
// larger one the ends and a probe in each slice of 64 KiB, because each page that is touched costs
// much time.
template <typename Step>
bool for_ranges(size_t size, Step step) {
  constexpr size_t kProbe = 64;
  constexpr size_t kStep = size_t{64} << 10;
  if (size <= kWholeUpTo) return step(size_t{0}, size);
  for (size_t from = 0; from + kProbe <= size; from += kStep) {
    if (!step(from, from + kProbe)) return false;
  }
  return step((size - kProbe) & ~size_t{7}, size);
}

}  // namespace

bool Table::is_free(const void* where) const {
  auto after = live_.upper_bound(address(where));
  if (after == live_.begin()) return true;
  const auto& [start, usable] = *--after;
  return address(where) - start >= std::max<size_t>(usable, 1);
}

// True if NULL was a right answer.
bool Table::is_refused(const void* start, size_t size) {
  if (start != nullptr) {
    demand(size < kImpossible, "a block of %zu bytes", size);
    return false;
  }
  demand(errno == ENOMEM, "NULL for %zu bytes with errno %d", size, errno);
  demand(size >= kImpossible || may_refuse_, "no memory for %zu bytes", size);
  return true;
}

void Table::add(size_t index, void* start, const Wish& wish) {
  note("  -> %p", start);
  if (is_refused(start, wish.size)) return;
  demand(slots_[index].start == nullptr, "the harness loses a block");
  const size_t alignment = wish.alignment != 0 ? wish.alignment : wish.size < 16 ? 8 : 16;
  demand(address(start) % alignment == 0, "%p is not aligned to %zu", start, alignment);
  Slot& slot = slots_[index];
  slot = {static_cast<char*>(start), wish.size, 0, wish.alignment, ++made_, wish.maker};
  keep(slot);
  const auto zero = [&](size_t from, size_t to) { return is_zero(slot.start + from, to - from); };
  demand(!wish.zero || for_ranges(slot.size, zero), "%zu bytes are not zero", slot.size);
  fill_slot(slot);
}

void Table::resized(size_t index, void* start, size_t size) {
  note("  -> %p", start);
  Slot& slot = slots_[index];
  if (is_refused(start, size)) return expect_pattern(slot);
  const Slot before = slot;
  live_.erase(address(before.start));
  live_bytes_ -= before.usable;
  demand(address(start) % (size < 16 ? 8 : 16) == 0, "%p is not aligned", start);
  slot = {static_cast<char*>(start), size, 0, 0, ++made_, Maker::sized};
  keep(slot);
  const size_t kept = std::min(before.size, size);
  const bool holds = for_ranges(before.size, [&](size_t from, size_t to) {
    return from >= kept || range_holds(slot.start, from, std::min(to, kept), before.seed);
  });
  demand(holds, "realloc from %zu to %zu bytes lost some", before.size, size);
  fill_slot(slot);
}

// The block of a slot is live from here on.
void Table::keep(Slot& slot) {
  slot.usable = near_malloc_usable_size(slot.start);
  demand(slot.usable >= slot.size, "%zu bytes usable of %zu", slot.usable, slot.size);
  demand(slot.usable > 0, "a block without a byte");
  const auto [placed, fresh] = live_.emplace(address(slot.start), slot.usable);
  demand(fresh, "%p is handed out twice", static_cast<void*>(slot.start));
  const auto next = std::next(placed);
  demand(next == live_.end() || placed->first + slot.usable <= next->first,
         "a block of %zu bytes reaches into the next one", slot.usable);
  const auto before = placed == live_.begin() ? placed : std::prev(placed);
  demand(before == placed || before->first + before->second <= placed->first,
         "a block lies in one of %zu bytes", before->second);
  demand(near_owns(slot.start) == 1, "a block is not owned");
  live_bytes_ += slot.usable;
}

void* Table::remove(size_t index) {
  Slot& slot = slots_[index];
  if (slot.start == nullptr) return nullptr;
  expect_pattern(slot);
  demand(near_malloc_usable_size(slot.start) == slot.usable, "the usable size changed");
  live_.erase(address(slot.start));
  live_bytes_ -= slot.usable;
  if (freed_.size() == kRemembered) freed_.erase(freed_.begin());
  freed_.push_back(slot.start);
  void* start = slot.start;
  slot = Slot{};
  return start;
}

// Also writes the last usable byte.
void Table::fill_slot(const Slot& slot) {
  slot.start[slot.usable - 1] = 'u';
  for_ranges(slot.size, [&](size_t from, size_t to) {
    fill_range(slot.start, from, to, slot.seed);
    return true;
  });
}

void Table::expect_pattern(const Slot& slot) const {
  const bool holds = for_ranges(slot.size, [&](size_t from, size_t to) {
    return range_holds(slot.start, from, to, slot.seed);
  });
  demand(holds, "a block of %zu bytes is damaged", slot.size);
}

void Table::expect_patterns() const {
  for (const Slot& slot : slots_) {
    if (slot.start != nullptr) expect_pattern(slot);
  }
}

}  // namespace near_test::fuzz
