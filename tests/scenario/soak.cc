// A process with a steady load keeps its resident size: a server, a cache with drifting sizes, and
// pools of threads, round after round.
// Invariant: all rounds of a load are alike, so memory lost in a round shows as a slope of the
// resident bytes. A soak has a hundred times the rounds (NEAR_TEST_SCALE).
#include <algorithm>
#include <array>
#include <mutex>

#include "scenario/scenario.h"
#include "support/parallel.h"

namespace near_test {
namespace {

constexpr size_t kRounds = 60;
constexpr size_t kAllowed = 10 * kMiB;  // the growth in all rounds after the first third

// Resident bytes, one number a round. A straight line is fitted to all but the first third.
class Series {
 public:
  explicit Series(size_t rounds) : bytes_(rounds) {}

  void add(size_t bytes) { bytes_[count_++] = static_cast<double>(bytes); }

  // The rise of the line from the first round to the last.
  double rise() const {
    const size_t first = count_ / 3;
    const auto number = static_cast<double>(count_ - first);
    const double middle = (number - 1) / 2;
    double product = 0;
    double squares = 0;
    for (size_t i = first; i < count_; i++) {
      const double away = static_cast<double>(i - first) - middle;
      product += away * bytes_[i];
      squares += away * away;
    }
    return product / squares * number;
  }

 private:
  mutable Mapped<double> bytes_;
  size_t count_ = 0;
};

// A block and its size.
struct Piece {
  void* block;
  size_t size;
};

Piece piece(size_t size) {
  Piece made{StandardNames::malloc(size), size};
  touch(made.block, size);
  return made;
}

void drop(Piece& old) {
  StandardNames::free(old.block);
  old = {};
}

// Mostly small blocks, some of several pages.
size_t size_of_request(Random& random) {
  return random.below(50) == 0 ? 1 + random.below(100'000) : 1 + random.size_up_to(12);
}

// Two threads serve all sessions. Each request replaces the buffer of any session, so threads free
// half of all buffers for each other.
class Server {
 public:
  explicit Server(size_t lost_of) : lost_of_(lost_of) {}
  ~Server() { std::for_each(&buffers_[0], &buffers_[0] + buffers_.size(), drop); }

  void round(size_t number) {
    run_threads(kThreads, [&](size_t thread) { serve(number * kThreads + thread + 1); });
  }

 private:
  static constexpr size_t kThreads = 2;
  static constexpr size_t kRequests = 20'000;
  static constexpr size_t kSessions = 8'000;

  void serve(uint64_t with_seed) {
    Random random(with_seed);
    for (size_t i = 0; i < kRequests; i++) {
      Piece answer = piece(size_of_request(random));
      Piece buffer = piece(size_of_request(random));
      {
        const std::lock_guard lock(mutex_);
        std::swap(buffers_[random.below(kSessions)], buffer);
      }
      drop(buffer);
      if (lost_of_ == 0 || random.below(lost_of_) != 0) drop(answer);
    }
  }

  size_t lost_of_;  // an answer of so many is never freed; 0: none
  std::mutex mutex_;
  Mapped<Piece> buffers_{kSessions};
};

// A cache with a limit of bytes. New entries take the place of any others. The sizes of entries
// drift from small to large and back, once a round.
class Cache {
 public:
  ~Cache() { std::for_each(&entries_[0], &entries_[0] + count_, drop); }

  void round(size_t number) {
    Random random(number + 1);
    for (size_t step = 0; step < kSteps; step++) {
      const size_t away = step < kSteps / 2 ? step : kSteps - step;
      const size_t largest = 100 + away * 8'000 / kSteps;
      for (size_t i = 0; i < kEntries / largest; i++) put(1 + random.below(largest), random);
    }
  }

 private:
  static constexpr size_t kSteps = 64;
  static constexpr size_t kEntries = 2'000'000;
  static constexpr size_t kLimit = 32 * kMiB;

  void put(size_t size, Random& random) {
    while (bytes_ + size > kLimit || count_ == entries_.size()) {
      Piece& forgotten = entries_[random.below(count_)];
      bytes_ -= forgotten.size;
      drop(forgotten);
      forgotten = entries_[--count_];
    }
    entries_[count_++] = piece(size);
    bytes_ += size;
  }

  Mapped<Piece> entries_{kLimit / 50};
  size_t count_ = 0;
  size_t bytes_ = 0;
};

// Threads come and go. Each frees the blocks of an earlier thread.
class Pool {
 public:
  ~Pool() { std::for_each(&left_[0], &left_[0] + left_.size(), drop); }

  void round(size_t number) {
    for (size_t i = number * kTimes; i < (number + 1) * kTimes; i++) {
      run_threads(kThreads, [&](size_t thread) { work(i, thread); });
    }
  }

 private:
  static constexpr size_t kTimes = 8;
  static constexpr size_t kThreads = 16;
  static constexpr size_t kEach = 500;

  void work(size_t time, size_t thread) {
    Random random(time * kThreads + thread + 1);
    for (size_t again = 0; again < 4; again++) {
      std::array<Piece, kEach> own;
      for (Piece& each : own) each = piece(size_of_request(random));
      for (Piece& each : own) drop(each);
    }
    for (size_t i = 0; i < kEach; i++) {
      Piece& place = left_[(thread + time) % kThreads * kEach + i];
      drop(place);
      place = piece(size_of_request(random));
    }
  }

  Mapped<Piece> left_{kThreads * kEach};
};

template <class Load>
double rise_of(Load& load, size_t rounds) {
  Series series(rounds);
  for (size_t number = 0; number < rounds; number++) {
    load.round(number);
    series.add(resident_bytes());
  }
  std::printf("grew by %.2f MiB in %zu rounds, %.1f MiB at the end\n",
              series.rise() / static_cast<double>(kMiB), rounds - rounds / 3,
              static_cast<double>(resident_bytes()) / static_cast<double>(kMiB));
  EXPECT_EQ(violations(), 0u);
  count_cases(rounds);
  return series.rise();
}

TEST(Soak, AServerKeepsItsSize) {
  Server server(0);
  EXPECT_LE(rise_of(server, scaled(kRounds)), kAllowed);
}

TEST(Soak, ACacheOfDriftingSizesKeepsItsSize) {
  Cache cache;
  EXPECT_LE(rise_of(cache, scaled(kRounds)), kAllowed);
}

TEST(Soak, APoolOfThreadsKeepsItsSize) {
  Pool pool;
  EXPECT_LE(rise_of(pool, scaled(kRounds)), kAllowed);
}

// The server loses an answer of 200, half a MiB a round.
TEST(Soak, ALeakIsSeen) {
  Server server(200);
  EXPECT_GT(rise_of(server, kRounds), kAllowed);
}

}  // namespace
}  // namespace near_test
