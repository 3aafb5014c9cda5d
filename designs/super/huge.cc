#include "designs/super/huge.h"

#include <cstring>

#include "base/compiler.h"
#include "designs/super/settings.h"
#include "platform/os.h"

namespace near::design::super {

constinit Huge huge;

namespace {

using Table = ChunkTable;

constexpr size_t kNoRun = SIZE_MAX;

Table::Kind kind_of(uint32_t entry) { return static_cast<Table::Kind>(entry & Table::kKindMask); }
size_t number_in(uint32_t entry) { return entry >> Table::kNumberShift; }

// The smallest n such that 2^n chunks hold `chunks`.
unsigned log2_for(size_t chunks) { return chunks == 1 ? 0 : log2_floor(chunks - 1) + 1; }

// The run that contains this block, or kNoRun.
size_t run_of(const void* block) {
  if (reinterpret_cast<uintptr_t>(block) % kChunk != 0) return kNoRun;
  const size_t number = Table::number_of(block);
  const uint32_t entry = Table::entry(number);
  if (kind_of(entry) == Table::kHuge) return number;
  return kind_of(entry) == Table::kInHuge ? number - number_in(entry) : kNoRun;
}

// Drops the contents of a run: then it takes no memory and reads as zero.
void clear(size_t run, size_t chunks) {
  if (!os::purge(Table::chunk(run), chunks * kChunk)) memset(Table::chunk(run), 0, chunks * kChunk);
}

}  // namespace

size_t Huge::take_run(unsigned log2, bool& fresh) {
  if (log2 >= kLogs) return kNoRun;
  if (free_[log2] != 0) {
    const size_t run = free_[log2] - 1;
    free_[log2] = number_in(Table::entry(run));
    totals_.reused++;
    return run;
  }
  const size_t bytes = kChunk << log2;
  void* start = arena.take(bytes);
  if (start == nullptr) return kNoRun;
  os::advise_huge_pages(start, bytes, true);
  fresh = true;
  totals_.taken++;
  return Table::number_of(start);
}

void* Huge::take(size_t size, size_t alignment) {
  bool fresh = false;
  return take(size, alignment, fresh);
}

void* Huge::take_zeroed(size_t size) {
  bool fresh = false;
  void* block = take(size, 1, fresh);
  const bool is_zero = fresh || settings.unmap_huge;
  return block != nullptr && !is_zero ? memset(block, 0, size) : block;
}

void* Huge::take(size_t size, size_t alignment, bool& fresh) {
  if (size > PTRDIFF_MAX / 2 || alignment > PTRDIFF_MAX / 4) return nullptr;
  const size_t grain = max_of(alignment, kChunk);
  const size_t chunks = div_up(max_of(size, 1) + grain - kChunk, kChunk);
  const LockGuard guard(lock_);
  const size_t run = take_run(log2_for(chunks), fresh);
  if (run == kNoRun) return nullptr;
  Table::set(run, Table::of_kind(Table::kHuge, chunks));
  char* block =
      reinterpret_cast<char*>(align_up(reinterpret_cast<uintptr_t>(Table::chunk(run)), grain));
  const size_t first = Table::number_of(block);
  if (first != run) Table::set(first, Table::of_kind(Table::kInHuge, first - run));
  totals_.blocks++;
  totals_.in_use += chunks * kChunk;
  return block;
}

bool Huge::put(void* block) {
  const LockGuard guard(lock_);
  const size_t run = run_of(block);
  if (run == kNoRun) return false;
  const size_t chunks = number_in(Table::entry(run));
  const unsigned log2 = log2_for(chunks);
  if (settings.unmap_huge) clear(run, chunks);
  Table::set(Table::number_of(block), Table::kNone);
  Table::set(run, Table::of_kind(Table::kFreeHuge, free_[log2]));
  free_[log2] = run + 1;
  totals_.blocks--;
  totals_.in_use -= chunks * kChunk;
  return true;
}

size_t Huge::usable(const void* block) const {
  const size_t run = run_of(block);
  if (run == kNoRun) return 0;
  return (number_in(Table::entry(run)) - (Table::number_of(block) - run)) * kChunk;
}

bool Huge::grow(void* block, size_t size) {
  if (size > PTRDIFF_MAX / 2) return false;
  const LockGuard guard(lock_);
  const size_t run = run_of(block);
  if (run == kNoRun) return false;
  const size_t before = number_in(Table::entry(run));
  const size_t chunks = div_up(size, kChunk) + Table::number_of(block) - run;
  if (chunks < before || log2_for(chunks) != log2_for(before)) return false;
  Table::set(run, Table::of_kind(Table::kHuge, chunks));
  totals_.in_use += (chunks - before) * kChunk;
  return true;
}

bool Huge::trim() {
  if (settings.unmap_huge) return false;
  const LockGuard guard(lock_);
  bool any = false;
  for (unsigned log2 = 0; log2 < kLogs; log2++) {
    for (size_t run = free_[log2]; run != 0; run = number_in(Table::entry(run - 1))) {
      any = os::purge(Table::chunk(run - 1), kChunk << log2) || any;
    }
  }
  return any;
}

Huge::Totals Huge::totals() {
  const LockGuard guard(lock_);
  return totals_;
}

}  // namespace near::design::super
