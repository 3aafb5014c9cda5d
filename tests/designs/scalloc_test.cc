// scalloc under its default switches: the claims of its paper, and what it does with wrong pointers
// and refused memory. [Aigner15 §3, §4]
#include "designs/scalloc/scalloc.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "designs/counters.h"
#include "designs/late_frees.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/forked.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::design::scalloc;

const auto kPooled = "spans put in the pool";
const auto kFragmentation = "span-internal fragmentation";
constexpr size_t kLine = 64;

uintptr_t address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

void in_thread(const std::function<void()>& work) { std::thread(work).join(); }

std::vector<void*> allocate_many(size_t count, size_t size) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = Scalloc::allocate(size);
  return blocks;
}

// Blocks that fill their span, none of them in the hot span of the class any more.
std::vector<void*> fill_span(unsigned size_class) {
  const SizeClass& shape = kSizeClasses[size_class];
  std::map<const Span*, std::vector<void*>> spans;
  for (;;) {
    void* block = Scalloc::allocate(shape.size);
    auto& blocks = spans[span_of(block)];
    blocks.push_back(block);
    if (blocks.size() < shape.blocks) continue;
    std::vector<void*> full = std::move(blocks);
    void* next = Scalloc::allocate(shape.size);  // moves the class on
    EXPECT_NE(span_of(next), span_of(full[0]));
    Scalloc::deallocate(next);
    spans.erase(span_of(full[0]));
    for (auto& [span, others] : spans) {
      for (void* other : others) Scalloc::deallocate(other);
    }
    return full;
  }
}

std::string said_of(const std::function<void()>& wrong) {
  testing::internal::CaptureStderr();
  wrong();
  count_cases();
  return testing::internal::GetCapturedStderr();
}

TEST(Scalloc, ASpanIsReturnedAtTheFreeOfItsLastBlock) {
  in_thread([] {
    for (unsigned size_class = 1; size_class < kClasses; size_class++) {
      const std::vector<void*> blocks = fill_span(size_class);
      const Rise pooled(kPooled);
      for (void* block : blocks) {
        ASSERT_EQ(pooled(), 0u) << "class " << size_class;
        Scalloc::deallocate(block);
      }
      ASSERT_EQ(pooled(), 1u) << "class " << size_class;
      count_cases();
    }
  });
}

TEST(Scalloc, ASpanIsReturnedAtARemoteFreeOfItsLastBlock) {
  in_thread([] {
    for (unsigned size_class = 1; size_class < kClasses; size_class++) {
      const std::vector<void*> blocks = fill_span(size_class);
      const Rise pooled(kPooled);
      in_thread([&] {
        for (void* block : blocks) {
          ASSERT_EQ(pooled(), 0u) << "class " << size_class;
          Scalloc::deallocate(block);
        }
        ASSERT_EQ(pooled(), 1u) << "class " << size_class;
      });
      count_cases();
    }
  });
}

TEST(Scalloc, LocalAndRemoteFreesTogetherReturnASpan) {
  in_thread([] {
    const std::vector<void*> blocks = fill_span(4);
    const Rise pooled(kPooled);
    for (size_t i = 0; i < blocks.size(); i += 2) Scalloc::deallocate(blocks[i]);
    in_thread([&] {
      for (size_t i = 1; i < blocks.size(); i += 2) Scalloc::deallocate(blocks[i]);
    });
    EXPECT_EQ(pooled(), 1u);
    count_cases();
  });
}

// What the paper's equations predict from the addresses of blocks alone. The state of a span
// follows from §3.4: the span that served last in its class is hot; a cold span with more than 80 %
// of its blocks free is reusable.
class Prediction {
 public:
  // Equations 1 and 2.
  void allocated(void* block, unsigned size_class) {
    const SizeClass& shape = kSizeClasses[size_class];
    const Span* span = span_of(block);
    const bool is_new = !live_.contains(span);
    if (is_new) {
      EXPECT_TRUE(reusable(size_class).empty()) << "a span was taken though one was reusable";
      fragmentation_ += uint64_t{shape.blocks} * shape.size;
    } else if (hot_[size_class] != span) {
      EXPECT_TRUE(reusable(size_class).contains(span)) << "a span was reused too early";
    }
    // A hot span stays even when all its blocks are free; it is left only when it has none free.
    if (hot_[size_class] != span) {
      const Span* left = hot_[size_class];
      EXPECT_TRUE(left == nullptr || live_[left].second == shape.blocks) << "left too early";
      hot_[size_class] = span;
    }
    live_[span].first = size_class;
    live_[span].second++;
    fragmentation_ -= shape.size;
  }

  // Equations 3 and 4.
  void freed(void* block) {
    const Span* span = span_of(block);
    auto& [size_class, live] = live_[span];
    const SizeClass& shape = kSizeClasses[size_class];
    fragmentation_ += shape.size;
    if (--live > 0 || hot_[size_class] == span) return;
    fragmentation_ -= uint64_t{shape.blocks} * shape.size;
    live_.erase(span);
  }

  uint64_t fragmentation() const { return fragmentation_; }

 private:
  std::set<const Span*> reusable(unsigned size_class) const {
    const size_t blocks = kSizeClasses[size_class].blocks;
    std::set<const Span*> found;
    for (const auto& [span, use] : live_) {
      if (use.first == size_class && hot_[size_class] != span &&
          blocks - use.second > blocks * 80 / 100) {
        found.insert(span);
      }
    }
    return found;
  }

  std::map<const Span*, std::pair<unsigned, size_t>> live_;  // class, live blocks
  const Span* hot_[kClasses] = {};
  uint64_t fragmentation_ = 0;
};

// Allocates and frees in one thread, and compares the counter with the prediction at every step.
class PredictedSteps {
 public:
  void allocate(unsigned size_class) {
    live_.push_back(Scalloc::allocate(kSizeClasses[size_class].size));
    prediction_.allocated(live_.back(), size_class);
    compare();
  }

  void free_at(size_t position) {
    std::swap(live_[position], live_.back());
    Scalloc::deallocate(live_.back());
    prediction_.freed(live_.back());
    live_.pop_back();
    compare();
  }

  size_t live() const { return live_.size(); }

  ~PredictedSteps() {
    for (void* block : live_) Scalloc::deallocate(block);
  }

 private:
  void compare() {
    EXPECT_EQ(counter(kFragmentation) - before_, prediction_.fragmentation()) << "step " << step_;
    step_++;
    count_cases();
  }

  const uint64_t before_ = counter(kFragmentation);
  Prediction prediction_;
  std::vector<void*> live_;
  size_t step_ = 0;
};

constexpr unsigned kSomeClasses[] = {1, 9, 16, 17, 20, 24, 27, 28};

TEST(Scalloc, TheFragmentationEquationsHoldAtEveryStep) {
  in_thread([] {
    std::mt19937_64 random(seed());
    PredictedSteps steps;
    const size_t count = std::max<size_t>(scaled(20'000), 9'000);  // six waves at least
    for (size_t step = 0; step < count && !testing::Test::HasFailure(); step++) {
      // Waves, so that spans fill, become reusable, are used again, and become empty.
      const bool grow = steps.live() == 0 || random() % 100 < (step / 1500 % 2 == 0 ? 75 : 25);
      if (grow) {
        steps.allocate(kSomeClasses[random() % std::size(kSomeClasses)]);
      } else {
        steps.free_at(random() % steps.live());
      }
    }
  });
}

TEST(Scalloc, TheFragmentationEquationsHoldWhenASpanIsReused) {
  in_thread([] {
    for (const unsigned size_class : kSomeClasses) {
      const size_t blocks = kSizeClasses[size_class].blocks;
      if (blocks - 1 <= blocks * 80 / 100) continue;  // one live block is too many to reuse it
      const uint64_t reused = counter("reusable spans made hot");
      PredictedSteps steps;
      for (size_t i = 0; i < 2 * blocks; i++) steps.allocate(size_class);
      // The first span keeps one block. The second span is hot and full.
      for (size_t i = 0; i < blocks - 1; i++) steps.free_at(i);
      steps.allocate(size_class);
      EXPECT_EQ(counter("reusable spans made hot"), reused + 1) << "class " << size_class;
    }
  });
}

std::set<uintptr_t> lines_of(const std::vector<void*>& blocks, size_t size) {
  std::set<uintptr_t> lines;
  for (const void* block : blocks) {
    for (size_t at = 0; at < size; at += 8) lines.insert((address(block) + at) / kLine);
  }
  return lines;
}

void expect_apart(const std::set<uintptr_t>& one, const std::set<uintptr_t>& other) {
  std::vector<uintptr_t> both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  EXPECT_TRUE(both.empty()) << both.size() << " lines have blocks of two threads";
  count_cases(one.size() + other.size());
}

TEST(Scalloc, NoActiveFalseSharing) {
  in_thread([] {
    for (const size_t size : {8, 16, 48, 64, 200}) {
      std::vector<void*> mine;
      std::vector<void*> theirs;
      std::atomic<int> turn{0};
      std::thread other([&] {
        for (int i = 0; i < 3000; i++) {
          while (turn.load() != 1) std::this_thread::yield();
          theirs.push_back(Scalloc::allocate(size));
          turn.store(0);
        }
      });
      for (int i = 0; i < 3000; i++) {
        mine.push_back(Scalloc::allocate(size));
        turn.store(1);
        while (turn.load() != 0) std::this_thread::yield();
      }
      other.join();
      expect_apart(lines_of(mine, size), lines_of(theirs, size));
      for (void* block : mine) Scalloc::deallocate(block);
      for (void* block : theirs) Scalloc::deallocate(block);
    }
  });
}

TEST(Scalloc, NoPassiveFalseSharing) {
  in_thread([] {
    for (const size_t size : {8, 16, 48, 64, 200}) {
      std::vector<void*> mine = allocate_many(3000, size);
      std::set<uintptr_t> theirs;
      in_thread([&] {
        // Every second block was handed over; freeing it must not give its line to the thread.
        std::vector<void*> own;
        for (size_t i = 1; i < mine.size(); i += 2) {
          Scalloc::deallocate(mine[i]);
          own.push_back(Scalloc::allocate(size));
        }
        theirs = lines_of(own, size);
        for (void* block : own) Scalloc::deallocate(block);
      });
      std::vector<void*> kept;
      for (size_t i = 0; i < mine.size(); i += 2) kept.push_back(mine[i]);
      expect_apart(lines_of(kept, size), theirs);
      for (void* block : kept) Scalloc::deallocate(block);
    }
  });
}

TEST(Scalloc, SpansOfAThreadThatEndedAreAdoptedAndReturned) {
  for (const size_t size : {16, 64, 512, 70'000}) {
    std::vector<void*> blocks;
    in_thread([&] { blocks = allocate_many(2500, size); });
    std::set<const Span*> spans;
    for (void* block : blocks) spans.insert(span_of(block));
    const Rise adopted("orphaned spans adopted");
    const Rise pooled(kPooled);
    in_thread([&] {
      Scalloc::deallocate(Scalloc::allocate(8));  // it has a LAB
      for (void* block : blocks) Scalloc::deallocate(block);
      EXPECT_EQ(adopted(), spans.size());
      EXPECT_EQ(pooled(), spans.size());
    });
    count_cases(spans.size());
  }
}

TEST(Scalloc, AnOrphanServesItsAdopter) {
  std::vector<void*> blocks;
  in_thread([&] { blocks = fill_span(4); });
  in_thread([&] {
    const Span* span = span_of(blocks[0]);
    while (blocks.size() > 1) {
      Scalloc::deallocate(blocks.back());
      blocks.pop_back();
    }
    void* block = Scalloc::allocate(64);
    EXPECT_EQ(span_of(block), span) << "a reusable span is taken first";
    Scalloc::deallocate(block);
    Scalloc::deallocate(blocks[0]);
    count_cases();
  });
}

TEST(Scalloc, HugeObjectsHaveMappingsOfTheirOwn) {
  const Rise huge("huge objects");
  for (const size_t alignment : {size_t{16}, size_t{4096}, size_t{1} << 21, size_t{1} << 26}) {
    void* block = Scalloc::allocate_aligned(alignment, kLargestBlock + 1);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(address(block) % alignment, 0u);
    EXPECT_FALSE(arena.contains(block));
    EXPECT_EQ(huge(), 1u);
    EXPECT_GE(Scalloc::usable_size(block), kLargestBlock + 1);
    memset(block, 1, Scalloc::usable_size(block));
    Scalloc::deallocate(block);
    EXPECT_EQ(huge(), 0u);
    count_cases();
  }
}

TEST(Scalloc, AnAlignedBlockGoesBackAsTheBlockItIsIn) {
  in_thread([] {
    for (size_t alignment = 32; alignment <= 512 * 1024; alignment *= 2) {
      std::set<const void*> seen;
      for (int i = 0; i < 200; i++) {
        void* block = Scalloc::allocate_aligned(alignment, 100);
        ASSERT_EQ(address(block) % alignment, 0u);
        ASSERT_GE(Scalloc::usable_size(block), 100u);
        seen.insert(block);
        Scalloc::deallocate(block);
      }
      EXPECT_EQ(seen.size(), 1u) << "the same block is free each time";
      count_cases();
    }
  });
}

TEST(Scalloc, WrongPointersAreReported) {
  in_thread([] {
    auto* block = static_cast<char*>(Scalloc::allocate(100));
    void* huge = Scalloc::allocate(kLargestBlock * 3);
    EXPECT_NE(said_of([&] { Scalloc::deallocate(block + 16); }).find("inside a block"),
              std::string::npos);
    Scalloc::deallocate(block);
    EXPECT_NE(said_of([&] { Scalloc::deallocate(block); }).find("free already"), std::string::npos);
    void* beyond = reinterpret_cast<void*>(address(span_of(block)) + 40'000);
    EXPECT_NE(said_of([&] { Scalloc::deallocate(beyond); }).find("free already"),
              std::string::npos);
    void* header = reinterpret_cast<void*>(address(span_of(block)) + 16);
    EXPECT_NE(said_of([&] { Scalloc::deallocate(header); }), "");
    void* end = reinterpret_cast<void*>(arena.start() + arena.taken() + 4096);
    EXPECT_NE(said_of([&] { Scalloc::deallocate(end); }), "");
    Scalloc::deallocate(huge);
    EXPECT_NE(said_of([&] { Scalloc::deallocate(huge); }), "");
    std::vector<void*> remote = allocate_many(2, 48);
    in_thread([&] {
      Scalloc::deallocate(remote[0]);
      EXPECT_NE(said_of([&] { Scalloc::deallocate(remote[0]); }).find("free already"),
                std::string::npos);
      Scalloc::deallocate(remote[1]);
    });
  });
}

TEST(Scalloc, MoreThreadsThanTheOriginalCouldBear) {
  constexpr size_t kThreads = 400;
  std::vector<void*> blocks(kThreads);
  std::atomic<size_t> arrived{0};
  run_threads(kThreads, [&](size_t i) {
    blocks[i] = Scalloc::allocate(64);
    arrived++;
    while (arrived.load() < kThreads) std::this_thread::yield();
  });
  std::set<const Span*> spans;
  for (void* block : blocks) spans.insert(span_of(block));
  EXPECT_EQ(spans.size(), kThreads);
  EXPECT_GE(counter("most LABs at once"), kThreads);
  for (void* block : blocks) Scalloc::deallocate(block);
  count_cases(kThreads);
}

TEST(Scalloc, AThreadStartsAsOftenAsItLikes) {
  // The original numbered owners with 16 bits.
  void* kept = nullptr;
  in_thread([&] { kept = Scalloc::allocate(64); });
  const Lab* lab = nullptr;
  for (size_t i = 0; i < 70'000; i++) {
    ASSERT_TRUE(Scalloc::thread_enter());
    lab = current_lab;
    ASSERT_NE(span_of(kept)->owner.load(), lab->owner.load());
    Scalloc::thread_exit();
  }
  Scalloc::deallocate(kept);
  count_cases();
}

TEST(Scalloc, AThreadThatFreesAtItsEndLeavesNoLab) {
  expect_nothing_left_by_late_frees([] { return Scalloc::allocate(64); }, Scalloc::deallocate,
                                    labs_made);
}

TEST(Scalloc, AThreadThatGoesOnFreeingHasALab) {
  const std::vector<void*> blocks = allocate_many(100, 64);
  in_thread([&] {
    Scalloc::deallocate(blocks[0]);
    EXPECT_EQ(current_lab, &no_lab) << "it may have been its last";
    for (size_t i = 1; i < blocks.size(); i++) Scalloc::deallocate(blocks[i]);
    EXPECT_NE(current_lab, &no_lab);
  });
  count_cases();
}

TEST(Scalloc, TheChildOfAForkAdoptsWhatOtherThreadsHad) {
  std::vector<void*> blocks;
  std::atomic<int> stage{0};
  std::thread other([&] {
    blocks = allocate_many(1000, 256);
    stage.store(1);
    while (stage.load() != 2) std::this_thread::yield();
  });
  while (stage.load() != 1) std::this_thread::yield();
  const int status = run_in_child([&] {
    std::set<const Span*> spans;
    for (void* block : blocks) spans.insert(span_of(block));
    const Rise adopted("orphaned spans adopted");
    const Rise pooled(kPooled);
    for (void* block : blocks) Scalloc::deallocate(block);
    return adopted() == spans.size() && pooled() == spans.size() ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  stage.store(2);
  other.join();
  for (void* block : blocks) Scalloc::deallocate(block);
  count_cases();
}

TEST(Scalloc, RefusedMemoryLosesNothing) {
  in_thread([] {
    std::vector<void*> blocks = fill_span(20);
    const uint64_t taken = arena.taken();
    fake_os::fail(OsCall::any, 1, true);
    // Spans that are free already serve; then nothing does.
    std::vector<void*> more;
    while (void* block = Scalloc::allocate(kLargestBlock)) more.push_back(block);
    EXPECT_EQ(Scalloc::allocate(2 * kLargestBlock), nullptr);
    EXPECT_EQ(arena.taken(), taken);
    const size_t most = more.size();
    for (void* block : more) Scalloc::deallocate(block);
    more.clear();
    while (void* block = Scalloc::allocate(kLargestBlock)) more.push_back(block);
    EXPECT_GE(more.size(), most);
    fake_os::fail_none();
    more.push_back(Scalloc::allocate(kLargestBlock));
    EXPECT_NE(more.back(), nullptr);
    for (void* block : more) Scalloc::deallocate(block);
    for (void* block : blocks) Scalloc::deallocate(block);
    count_cases(most + 1);
  });
}

}  // namespace
}  // namespace near_test
