// Model of a window's growth (node/window.h, node/window.cc): the regions of two shards get chunks
// from it, while another thread looks addresses up.
//
// Invariants: a chunk is given to one region; that region's table has an entry for it, and it has
// descriptors, which are bound once and not before; no part of a table and no descriptor is mapped
// twice; the budget of the node is kept; a thread that finds an address below described_bytes()
// sees its descriptor mapped.
// Bound: a window of 4 extents of 512 chunks; 2 threads of one shard and 1 of another, which get 5
// extents if they can; a thread that looks at each extent.
#include <new>

#include "node/bind.h"
#include "node/window.h"
#include "platform/os.h"
#include "runner.h"

namespace near::model {
namespace {

constexpr uint32_t kExtent = 512;
constexpr uint32_t kExtents = 4;
constexpr uint32_t kPlanned = kExtents * kExtent;
constexpr unsigned kTables = 2;

Witness overtaken("regions that others overtook");
Witness refused("regions that got no chunks");
Witness found("addresses found by a thread without a lock");

// The memory that the system has mapped for the window, an extent's part at a time.
class Memory {
 public:
  explicit Memory(const Window& window) : window_(window) {
    for (unsigned i = 0; i < kExtents; i++) {
      has_descriptors[i] = is_bound[i] = false;
      for (auto& entries : has_entries) entries[i] = false;
    }
  }

  void map(const void* start, size_t bytes) {
    const auto* at = static_cast<const char*>(start);
    const auto* spans = reinterpret_cast<const char*>(window_.spans());
    if (at >= spans) return map_parts(has_descriptors, described_, at - spans, bytes, kSpanBytes);
    const char* table = reinterpret_cast<const char*>(window_.table(1));
    const unsigned number = at < table ? 0 : 1;
    table = reinterpret_cast<const char*>(window_.table(number));
    map_parts(has_entries[number], entries_[number], at - table, bytes, sizeof(Chunk));
  }

  void bind(const void* start, size_t bytes) {
    const auto* spans = reinterpret_cast<const char*>(window_.spans());
    if (start < spans) return;  // a table
    const size_t from = static_cast<size_t>(static_cast<const char*>(start) - spans) / kSpanBytes;
    for (size_t i = from / kExtent; i < (from + bytes / kSpanBytes) / kExtent; i++) {
      expect(has_descriptors[i], "descriptors are bound before they are mapped");
      expect(!is_bound[i], "descriptors are bound twice");
      is_bound[i] = true;
    }
  }

  Plain<bool> has_descriptors[kExtents];
  Plain<bool> is_bound[kExtents];
  Plain<bool> has_entries[kTables][kExtents];

 private:
  static constexpr size_t kSpanBytes = kChunkSlices * sizeof(Span);  // of a chunk

  // `end`: the bytes that are mapped so far; the next ones follow.
  static void map_parts(Plain<bool>* has, Plain<size_t>& end, ptrdiff_t from, size_t bytes,
                        size_t bytes_of_chunk) {
    expect(static_cast<size_t>(from) == end, "memory is mapped twice");
    const size_t first = end / (kExtent * bytes_of_chunk);
    end = end + bytes;
    for (size_t i = first; i < kExtents && end >= (i + 1) * kExtent * bytes_of_chunk; i++) {
      has[i] = true;
    }
  }

  const Window& window_;
  Plain<size_t> described_ = 0;
  Plain<size_t> entries_[kTables] = {0, 0};
};

Memory* memory = nullptr;  // of the present execution

class Growing : public rl::test_suite<Growing, 4> {
 public:
  void before() {
    window_.plan(reinterpret_cast<char*>(size_t{64} * kChunkSize), kPlanned, kTables, false);
    memory = new (room_) Memory(window_);
    budget_.left = kPlanned;
    for (Plain<unsigned>& owner : owners_) owner = 0;
    for (Plain<uint32_t>& end : table_ends_) end = 0;
  }

  void thread(unsigned index) {
    if (index == 3) return look();
    extend(index / 2);
    if (index > 0) extend(index / 2);
  }

  void after() {
    for (const Plain<unsigned>& owner : owners_) expect(owner != 0, "chunks are lost");
    expect(budget_.left == 0, "the budget is not what was given away");
    memory->~Memory();
  }

 private:
  // Shard::grow and Region::extend_to: one thread of a shard at a time.
  void extend(unsigned shard) {
    Mutex another{Rank::growing};
    Mutex& growing =
        mutated("a region grows without the lock of growing") ? another : growing_[shard];
    const LockGuard guard(growing);
    const uint32_t before = window_.end();
    uint32_t first = 0;
    const uint32_t count =
        window_.get_chunks({shard, 0, table_ends_[shard]}, budget_, windows_, {1, kExtent}, first);
    if (count == 0) return refused.note();
    if (first + count > before + kExtent) overtaken.note();
    use(shard, first, count);
  }

  // Region::own, and the first span of each extent.
  void use(unsigned shard, uint32_t first, uint32_t count) {
    expect(count == kExtent && first % kExtent == 0, "not the lowest chunks");
    const uint32_t i = first / kExtent;
    expect(memory->has_entries[shard][i], "a chunk has no entry in the table");
    expect(memory->has_descriptors[i], "a chunk has no descriptors");
    expect(memory->is_bound[i], "descriptors are not bound");
    expect(owners_[i] == 0, "chunks are given twice");
    owners_[i] = shard + 1;
    expect(window_.contains(start_of(i)), "an address of the window is not found");
  }

  // span_of, for an address that this thread has from nowhere.
  void look() {
    for (uint32_t i = 0; i < kExtents; i++) {
      uint32_t tries = 10;
      while (tries > 0 && !window_.contains(start_of(i))) tries--;
      if (tries == 0) continue;
      expect(memory->has_descriptors[i], "an address is found that has no descriptor");
      found.note();
    }
  }

  const char* start_of(uint32_t extent) const {
    return window_.base() + (size_t{extent} * kExtent << kChunkShift);
  }

  Window window_;
  Budget budget_;
  Mutex windows_{Rank::windows};
  Mutex growing_[kTables] = {Mutex(Rank::growing), Mutex(Rank::growing)};
  Plain<uint32_t> table_ends_[kTables];
  Plain<unsigned> owners_[kExtents];  // a shard's number + 1
  alignas(Memory) std::byte room_[sizeof(Memory)];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Growing>("growing", Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    {"a region grows without the lock of growing"},
    {"what has descriptors is not released", "window.cc", "::give", kRelease, kRelaxed},
    {"what has descriptors is not acquired", "window.h", "::described_bytes", kAcquire, kRelaxed},
};

}  // namespace near::model

// The system, which maps and binds what it is asked to.
namespace near {

void bind_to(unsigned, void* start, size_t bytes) { model::memory->bind(start, bytes); }

namespace os {

Mapped map(void* start, size_t bytes) {
  model::memory->map(start, bytes);
  return Mapped::done;
}
bool unmap(void*, size_t) { return true; }
bool advise_huge_pages(void*, size_t, bool) { return true; }
bool overcommits() { return true; }
size_t limit() { return SIZE_MAX; }
size_t physical_memory() { return SIZE_MAX; }
size_t page_size() { return 4096; }

}  // namespace os

}  // namespace near
