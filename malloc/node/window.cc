#include "node/window.h"

#include <bit>

#include "base/assert.h"
#include "base/bits.h"
#include "node/bind.h"
#include "platform/os.h"

namespace near {
namespace {

constexpr size_t kStep = 64 * kKiB;     // tables grow in this step, a multiple of every page size
constexpr uint32_t kDescribeStep = 16;  // chunks whose descriptors are mapped together
static_assert(kStep % sizeof(Chunk) == 0);

size_t table_bytes_for(uint32_t chunks) {
  return align_up(std::bit_ceil(size_t{chunks}) * sizeof(Chunk), kStep);
}

size_t spans_bytes_for(uint32_t chunks) {
  return align_up(size_t{chunks} * kChunkSlices * sizeof(Span), kStep);
}

}  // namespace

size_t Window::head_bytes_for(uint32_t chunks, unsigned tables) {
  return align_up(tables * table_bytes_for(chunks) + spans_bytes_for(chunks), kChunkSize);
}

size_t Window::bytes_for(uint32_t chunks, unsigned tables) {
  return head_bytes_for(chunks, tables) + (size_t{chunks} << kChunkShift);
}

void Window::plan(char* start, uint32_t chunks, unsigned tables, bool mapped) {
  plan_apart(start, start + head_bytes_for(chunks, tables), chunks, tables);
  mapped_ = mapped;
  if (mapped) described_ = chunks;
}

void Window::plan_apart(char* start, char* heap, uint32_t chunks, unsigned tables) {
  NEAR_ASSERT(chunks > 0);
  start_ = tables_ = start;
  head_end_ = start + head_bytes_for(chunks, tables);
  table_bytes_ = table_bytes_for(chunks);
  spans_ = reinterpret_cast<Span*>(start + tables * table_bytes_);
  base_ = heap;
  planned_ = chunks;
}

bool Window::map(char* start, size_t bytes) {
  const os::Mapped mapped = os::map(start, bytes);
  if (mapped == os::Mapped::occupied) end_here();
  if (mapped != os::Mapped::done) return false;
  os::advise_huge_pages(start, bytes, false);  // most of a huge page would stay unused
  return true;
}

// Maps the descriptors of chunks below `end`. Unused ones are zero, which means "no block here".
// Unless the process has a limit, it maps half as many more, because other threads wait meanwhile.
bool Window::describe(uint32_t end) {
  if (end <= described_) return true;
  const uint32_t ahead = os::limit() == SIZE_MAX ? end / 2 : 0;
  return describe_to(size_t{end} + ahead) || (ahead > 0 && describe_to(end));
}

bool Window::describe_to(size_t end) {
  const auto to = static_cast<uint32_t>(min_of(align_up(end, kDescribeStep), planned_));
  const size_t from_byte = spans_bytes_for(described_);
  const size_t to_byte = spans_bytes_for(to);
  if (to_byte > from_byte &&
      !map(reinterpret_cast<char*>(spans_) + from_byte, to_byte - from_byte)) {
    return false;
  }
  described_ = to;
  return true;
}

bool Window::extend_table(Table table, uint32_t end) {
  if (end <= table.end) return true;
  const size_t from = size_t{table.end} * sizeof(Chunk);
  const size_t to = align_up(std::bit_ceil(size_t{end}) * sizeof(Chunk), kStep);
  char* start = tables_ + table.number * table_bytes_;
  if (!mapped_) {
    if (!map(start + from, to - from)) return false;
    bind_to(table.node, start + from, to - from);
  }
  table.end = static_cast<uint32_t>(to / sizeof(Chunk));
  return true;
}

bool Window::may_map_tables(unsigned count) const {
  constexpr size_t kFew = 256 * kMiB;
  constexpr size_t kShareOfMemory = 8;
  const size_t bytes = count * table_bytes_;
  return bytes <= kFew || (bytes <= os::physical_memory() / kShareOfMemory && os::overcommits());
}

uint32_t Window::map_tables(unsigned first, unsigned count, unsigned node) {
  const size_t bytes = count * table_bytes_;
  char* start = tables_ + first * table_bytes_;
  if (mapped_ || os::limit() != SIZE_MAX || !map(start, bytes)) return 0;
  bind_to(node, start, bytes);
  return static_cast<uint32_t>(table_bytes_ / sizeof(Chunk));
}

uint32_t Window::give(uint32_t least, uint32_t wished, uint32_t& first) {
  const auto count = static_cast<uint32_t>(min_of(wished, left()));
  if (count < least || count == 0) return 0;
  const uint32_t end = this->end() + count;
  if (!describe(end)) return 0;
  first = this->end();
  end_.store(end, kRelaxed);                                     // relaxed: see `end`
  described_bytes_.store(size_t{end} << kChunkShift, kRelease);  // pairs: described
  if (published_ != nullptr) published_->grow_to(size_t{end} << kChunkShift);
  return count;
}

// The table is extended first. If other regions get so many chunks meanwhile that it is too short,
// it is extended again.
uint32_t Window::get_chunks(Table table, Budget& budget, Mutex& lock, Wish wish, uint32_t& first) {
  uint32_t count = 0;
  while (count == 0) {
    if (!extend_table(table, end_after(wish.wished))) return 0;
    const LockGuard guard(lock);
    const size_t most = min_of(min_of(size_t{wish.wished}, left()), budget.left);
    if (most < wish.least) return 0;
    if (end() + most > table.end) continue;
    count = give(wish.least, static_cast<uint32_t>(most), first);
    if (count == 0) return 0;
    budget.left = budget.left - count;
  }
  bind_descriptors(first, count, table.node);
  return count;
}

// Binds only whole pages of the descriptors: a shared page may be another node's.
void Window::bind_descriptors(uint32_t first, uint32_t count, unsigned node) {
  const size_t page = os::page_size();
  const Span* start = spans_ + size_t{first} * kChunkSlices;
  const auto from = align_up(reinterpret_cast<uintptr_t>(start), page);
  const auto to =
      align_down(reinterpret_cast<uintptr_t>(start + size_t{count} * kChunkSlices), page);
  if (to > from) bind_to(node, reinterpret_cast<void*>(from), to - from);
}

void Window::vanish(unsigned table, Plain<uint32_t>& entries) {
  if (described_ > 0) os::unmap(spans_, spans_bytes_for(described_));
  if (entries > 0) os::unmap(tables_ + table * table_bytes_, size_t{entries} * sizeof(Chunk));
  entries = described_ = 0;
}

}  // namespace near
