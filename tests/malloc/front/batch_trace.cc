// Frees the same blocks one by one and in a batch, for batch_trace.py, which runs it under
// Valgrind's lackey and counts instructions and cache lines between two marks.
// Invariant: a case's blocks lie in as many cold spans as it says, in turn; those of the remote
// cases belong to a thread that waits. Each span's remote list holds a block before,
// so that no case pays for a delivery.
// Output: a line `descriptors <from> <bytes>`, one `blocks <from> <bytes>`, then one line a case in
// the order of the marks: `<local|remote> <spans> <blocks> <one|batch> <groups>`.
// Thread-safety: one process of the test runs it.
#include <nearmalloc/nearmalloc.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <latch>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "span/address_map.h"
#include "support/pattern.h"

namespace near_test {
namespace {

constexpr size_t kSize = 64;  // a cache line
constexpr size_t kInSpan = near::kSliceSize / kSize;
constexpr size_t kSpans = 64;
constexpr uintptr_t kMark = uintptr_t{1} << 40;

volatile uint64_t* mark = nullptr;

// Full cold spans, the blocks of each in any order.
class Pool {
 public:
  explicit Pool(Random& random) {
    std::map<uintptr_t, std::vector<void*>> spans;
    for (size_t i = 0; i < (kSpans + 4) * kInSpan; i++) {
      void* block = near_malloc(kSize);
      spans[reinterpret_cast<uintptr_t>(block) / near::kSliceSize].push_back(block);
    }
    for (auto& [number, blocks] : spans) {
      if (blocks.size() < kInSpan || spans_.size() == kSpans) continue;
      for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[random.below(i)]);
      spans_.push_back(std::move(blocks));
    }
    if (spans_.size() < kSpans) std::abort();
  }

  void free_of_each(size_t number) {
    for (auto& blocks : spans_) {
      for (size_t i = 0; i < number; i++) near_free(take(blocks));
    }
  }

  std::vector<void*> take_in_turn(size_t spans, size_t count) {
    std::vector<void*> taken;
    taken.reserve(count);
    for (size_t i = 0; i < count; i++) {
      taken.push_back(take(spans_[(next_ + i % spans) % kSpans]));
    }
    next_ += spans;
    return taken;
  }

 private:
  static void* take(std::vector<void*>& blocks) {
    if (blocks.empty()) std::abort();
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }

  std::vector<std::vector<void*>> spans_;
  size_t next_ = 0;
};

void measure(Pool& pool, const char* where, size_t spans, size_t count, bool batch) {
  const std::vector<void*> blocks = pool.take_in_turn(spans, count);
  size_t groups = count;
  *mark = 1;
  if (batch) {
    groups = near_free_batch(blocks.data(), count);
  } else {
    for (void* block : blocks) near_free(block);
  }
  *mark = 0;
  std::printf("%s %zu %zu %s %zu\n", where, spans, count, batch ? "batch" : "one", groups);
}

void measure_all(Pool& pool, const char* where) {
  for (const size_t spans : {1, 8, 64}) {
    for (const size_t count : {1, 8, 32, 64, 512}) {
      measure(pool, where, spans, count, false);
      measure(pool, where, spans, count, true);
    }
  }
}

}  // namespace
}  // namespace near_test

int main() {
  using namespace near_test;
  void* wanted = reinterpret_cast<void*>(kMark);
  void* page = mmap(wanted, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != wanted) return 2;
  mark = static_cast<volatile uint64_t*>(page);
  Random random(1);
  Pool local(random);
  local.free_of_each(kInSpan / 8 + 1);  // enough to pass the event that files a span
  std::unique_ptr<Pool> remote;
  std::latch made(1);
  std::latch measured(1);
  std::thread owner([&] {
    remote = std::make_unique<Pool>(random);
    made.count_down();
    measured.wait();
  });
  made.wait();
  remote->free_of_each(1);
  std::printf("descriptors %zu %zu\n", reinterpret_cast<size_t>(near::reserved_spans),
              (near::reserved_bytes / near::kSliceSize) * sizeof(near::Span));
  std::printf("blocks %zu %zu\n", size_t{near::reserved_base}, near::reserved_bytes);
  measure_all(local, "local");
  measure_all(*remote, "remote");
  measured.count_down();
  owner.join();
  return near_check() == 0 ? 0 : 1;
}
