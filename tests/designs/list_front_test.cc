// SuperMalloc's level of threads, on a design that counts what reaches it; and scalloc's with it.
// Thread-safety: only the thread that runs the test uses it.
#include "designs/shared/list_front.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "support/cases.h"

namespace near_test {
namespace {

// A design of two classes: class 0 has no blocks of its own, class 1 has 64 bytes.
struct CountingBack {
  static constexpr unsigned kClasses = 2;
  static constexpr size_t kBytes = 64;
  static constexpr size_t kMost = 4096;
  static size_t block_bytes(unsigned size_class) { return size_class == 0 ? 0 : kBytes; }
  static void* allocate(unsigned size_class) {
    EXPECT_LT(size_class, kClasses);
    if (live == limit) return nullptr;
    live++;
    if (!returned.empty()) {
      void* block = *returned.begin();
      returned.erase(returned.begin());
      return block;
    }
    return memory + kBytes * fresh++;
  }
  static void deallocate(void* block) {
    EXPECT_TRUE(returned.insert(block).second) << "a block is given back once";
    live--;
  }

  alignas(64) static inline char memory[kBytes * kMost];
  static inline size_t fresh = 0;
  static inline size_t live = 0;
  static inline size_t limit = kMost;
  static inline std::set<void*> returned;
};
using Front = near::design::ListFront<CountingBack>;
constexpr size_t kFull = 16;

class ListFrontTest : public testing::Test {
 protected:
  ListFrontTest() {
    EXPECT_TRUE(Front::start(kFull * CountingBack::kBytes));
    EXPECT_TRUE(Front::enter());
  }
  ~ListFrontTest() override {
    Front::leave();
    EXPECT_EQ(CountingBack::live, 0U);
    CountingBack::limit = CountingBack::kMost;
    count_cases();
  }
};

TEST_F(ListFrontTest, AListMovesAtATime) {
  void* blocks[3 * kFull];
  for (void*& block : blocks) block = Front::take(1);
  EXPECT_EQ(CountingBack::live, 3 * kFull);
  EXPECT_EQ(Front::totals().blocks, 0U);
  void* one = Front::take(1);
  EXPECT_EQ(CountingBack::live, 4 * kFull) << "a whole list came";
  EXPECT_EQ(Front::totals().blocks, kFull - 1);
  EXPECT_TRUE(Front::put(1, one));
  // The list in use is full, the next one becomes the spare, the one after that goes back.
  for (void* block : blocks) EXPECT_TRUE(Front::put(1, block));
  EXPECT_EQ(CountingBack::live, 2 * kFull);
  EXPECT_EQ(Front::totals().blocks, 2 * kFull);
  EXPECT_EQ(Front::totals().bytes, 2 * kFull * CountingBack::kBytes);
  EXPECT_FALSE(Front::put(1, Front::take(1)) && Front::put(1, blocks[3 * kFull - 1]))
      << "the first block of the list is known to be free";
}

TEST_F(ListFrontTest, TheSpareServesBeforeTheDesign) {
  void* blocks[2 * kFull];
  for (void*& block : blocks) block = Front::take(1);
  for (void* block : blocks) EXPECT_TRUE(Front::put(1, block));
  const uint64_t filled = Front::totals().filled;
  for (void*& block : blocks) block = Front::take(1);
  EXPECT_EQ(Front::totals().filled, filled);
  for (void* block : blocks) EXPECT_TRUE(Front::put(1, block));
}

TEST_F(ListFrontTest, APartOfAListIsTakenWhenMemoryIsRefused) {
  CountingBack::limit = 3;
  void* blocks[4];
  for (void*& block : blocks) block = Front::take(1);
  EXPECT_NE(blocks[2], nullptr);
  EXPECT_EQ(blocks[3], nullptr);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(Front::put(1, blocks[i]));
}

TEST_F(ListFrontTest, AThreadWithoutACacheAndAClassWithoutBlocksUseTheDesign) {
  void* block = Front::take(0);
  EXPECT_EQ(CountingBack::live, 1U);
  EXPECT_TRUE(Front::put(0, block));
  EXPECT_EQ(CountingBack::live, 0U);
  std::thread([] {
    void* one = Front::take(1);
    EXPECT_EQ(CountingBack::live, 1U);
    EXPECT_TRUE(Front::put(1, one));
    EXPECT_EQ(CountingBack::live, 0U);
  }).join();
}

TEST_F(ListFrontTest, AnEndedThreadsListsAreEmptyAndAnOrphansAreTheNextThreads) {
  std::thread([] {
    EXPECT_TRUE(Front::enter());
    EXPECT_TRUE(Front::put(1, Front::take(1)));
    EXPECT_EQ(Front::totals().blocks, kFull);
    Front::leave();
  }).join();
  EXPECT_EQ(CountingBack::live, 0U);
  // As in the child of a fork: the thread ends without leaving.
  std::thread([] {
    EXPECT_TRUE(Front::enter());
    EXPECT_TRUE(Front::put(1, Front::take(1)));
  }).join();
  Front::lock().lock();
  Front::adopt_others();
  Front::lock().unlock();
  const uint64_t filled = Front::totals().filled;
  std::thread([] {
    EXPECT_TRUE(Front::enter());
    for (size_t i = 0; i < kFull; i++) EXPECT_NE(Front::take(1), nullptr);
    Front::leave();
  }).join();
  EXPECT_EQ(Front::totals().filled, filled) << "the orphan's list served";
  EXPECT_EQ(CountingBack::live, kFull);
  CountingBack::live = 0;
}

}  // namespace
}  // namespace near_test
