// Which foreign frees a thread's magazines keep, on few processors.
#include "heap/foreign_frees.h"

#include <gtest/gtest.h>

#include "support/cases.h"

namespace near_test {
namespace {

using near::ForeignFrees;

constexpr int kLook = ForeignFrees::kRest + ForeignFrees::kWindow;
constexpr int kAfterRest = ForeignFrees::kRest + ForeignFrees::kEnough * ForeignFrees::kWindow;

class ForeignFreesTest : public testing::Test {
 protected:
  static constexpr int kSpans = 1000;
  static constexpr int kScattered = 37;  // so the next span is far away

  // Frees so many foreign blocks, each `step` spans after the one before. Returns how many the
  // magazines should keep.
  int free(int blocks, int step = kScattered) {
    int kept = 0;
    count_cases();
    for (int i = 0; i < blocks; i++) {
      owned_ += own_share_;
      if (frees_.rest()) continue;
      place_ = (place_ + step) % spans_;
      kept += frees_.count(span(place_), [&] { return static_cast<uint64_t>(owned_); }) ? 1 : 0;
    }
    return kept;
  }
  // True if the magazines keep blocks after so many frees as that takes at most.
  bool begins(int step = kScattered) {
    for (int i = 0; i < kAfterRest + kLook; i++) {
      if (free(1, step) == 1) return true;
    }
    return false;
  }
  // As a child of fork that finds the thread where it waits to learn its own frees.
  void fork_at_next_decision() {
    ForeignFrees child;
    for (bool forked = false; !forked;) {
      if (frees_.rest()) continue;
      place_ = (place_ + kScattered) % spans_;
      frees_.count(span(place_), [&] {
        child = frees_;
        forked = true;
        return static_cast<uint64_t>(owned_);
      });
    }
    frees_ = child;
  }
  void no_room_for(int blocks) {
    for (int i = 0; i < blocks; i++) frees_.count_unused();
  }

  double own_share_ = 0;  // own frees for each foreign one
  int spans_ = kSpans;

 private:
  const near::Span& span(int number) const {
    return reinterpret_cast<const near::Span&>(room_[number * size_t{128}]);
  }

  ForeignFrees frees_;
  double owned_ = 0;
  int place_ = 0;
  alignas(128) char room_[kSpans * size_t{128}];
};

TEST_F(ForeignFreesTest, ManyScatteredOnesAreKeptExceptEachSixtyFourth) {
  EXPECT_EQ(free(kAfterRest), 0);
  EXPECT_EQ(free(6400), 6300);
}

TEST_F(ForeignFreesTest, BlocksOfOneSpanAfterTheOtherAreNotKept) {
  EXPECT_EQ(free(10 * kAfterRest, 0), 0);
  spans_ = 4;
  EXPECT_EQ(free(10 * kAfterRest, 1), 0) << "nor those of a few spans in turn";
  spans_ = kSpans;
  EXPECT_TRUE(begins());
  EXPECT_EQ(free(6400), 6300);
  free(2 * ForeignFrees::kWindow, 0);
  EXPECT_EQ(free(10 * kAfterRest, 0), 0);
}

// It begins where two frees of five are foreign, and ends where fewer than one of four is.
TEST_F(ForeignFreesTest, FewOnesAreNotKept) {
  own_share_ = 1.6;
  EXPECT_FALSE(begins());
  EXPECT_EQ(free(10 * kAfterRest), 0);
  own_share_ = 1.4;
  EXPECT_TRUE(begins());
  own_share_ = 2.9;
  EXPECT_EQ(free(6400), 6300);
  own_share_ = 3.1;
  free(2 * ForeignFrees::kWindow);
  EXPECT_EQ(free(10 * kAfterRest), 0);
}

TEST_F(ForeignFreesTest, AThreadThatDoesNotUseWhatItKeptPauses) {
  EXPECT_TRUE(begins());
  no_room_for(ForeignFrees::kWindow * 3 / 4);
  free(ForeignFrees::kWindow);
  EXPECT_EQ(free(2 * kLook, 0), 0);  // the pause is no shorter for these
  EXPECT_EQ(free(ForeignFrees::kPause * kLook), 0);
  EXPECT_TRUE(begins());
  EXPECT_EQ(free(640), 630);
  no_room_for(ForeignFrees::kWindow * 3 / 4 - 1);
  EXPECT_EQ(free(640), 630);
}

TEST_F(ForeignFreesTest, AfterAForkTheChildStillDecides) {
  EXPECT_TRUE(begins());
  fork_at_next_decision();
  EXPECT_EQ(free(6400), 6300);
  fork_at_next_decision();
  free(2 * ForeignFrees::kWindow, 0);
  EXPECT_EQ(free(10 * kAfterRest, 0), 0);
}

TEST_F(ForeignFreesTest, OnBusyProcessorsNoneAreKept) {
  EXPECT_TRUE(begins());
  int started = 0;
  while (!near::has_many_threads()) {
    EXPECT_EQ(free(ForeignFrees::kWindow), 252);
    near::count_thread(false);
    started++;
  }
  free(ForeignFrees::kWindow);
  EXPECT_EQ(free(10 * kAfterRest), 0);
  while (started-- > 0) near::discount_thread();
  EXPECT_TRUE(begins());
}

}  // namespace
}  // namespace near_test
