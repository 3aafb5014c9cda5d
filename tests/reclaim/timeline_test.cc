// Recorded events are in the file, to the bit; events without room are counted; a file written
// while threads record has whole events; the clock is the monotonic one.
#include <gtest/gtest.h>
#include <nearmalloc/reclaim/timeline.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nearmalloc/reclaim/timeline.hpp>
#include <string>
#include <vector>

#include "support/cases.h"
#include "support/parallel.h"

namespace {

using near::reclaim::kind;
using near::reclaim::scope;
using near::reclaim::timeline;
using near::reclaim::track;
using near_test::count_cases;

struct Event {
  uint64_t begin;
  unsigned kind;
  unsigned shape;
  uint64_t value;
  uint64_t length;
  uint32_t count;

  bool operator==(const Event&) const = default;
};

struct Row {
  std::string name;
  uint64_t thread_id, joined, left, dropped;
  std::vector<Event> events;
};

struct File {
  uint64_t started, written, capacity, threads, dropped_no_row;
  std::vector<std::string> kinds;
  std::vector<Row> rows;
};

template <class T>
T take(std::istream& from) {
  T value{};
  from.read(reinterpret_cast<char*>(&value), sizeof value);
  EXPECT_TRUE(from.good());
  return value;
}

std::string take_name(std::istream& from) {
  char text[32];
  from.read(text, sizeof text);
  EXPECT_EQ(text[31], '\0');
  return text;
}

Event take_event(std::istream& from) {
  const auto first = take<uint64_t>(from), second = take<uint64_t>(from);
  const auto third = take<uint64_t>(from);
  return {first >> 8,   static_cast<unsigned>(first >> 2 & 63), static_cast<unsigned>(first & 3),
          second >> 16, (second & 0xffff) << 32 | third >> 32,  static_cast<uint32_t>(third)};
}

Row take_row(std::istream& from) {
  Row row;
  row.name = take_name(from);
  row.thread_id = take<uint64_t>(from);
  row.joined = take<uint64_t>(from);
  row.left = take<uint64_t>(from);
  row.dropped = take<uint64_t>(from);
  row.events.resize(take<uint64_t>(from));
  for (Event& event : row.events) event = take_event(from);
  return row;
}

// A second reader, written from the description in docs/timeline.md.
File read_file(const std::string& path) {
  std::ifstream from(path, std::ios::binary);
  EXPECT_TRUE(from.good());
  char magic[8];
  from.read(magic, sizeof magic);
  EXPECT_EQ(std::string(magic, 8), "neartime");
  EXPECT_EQ(take<uint32_t>(from), 1u);
  File file;
  file.kinds.resize(take<uint32_t>(from));
  file.started = take<uint64_t>(from);
  take<uint64_t>(from);  // the wall clock
  file.written = take<uint64_t>(from);
  file.capacity = take<uint64_t>(from);
  file.threads = take<uint64_t>(from);
  file.dropped_no_row = take<uint64_t>(from);
  file.rows.resize(take<uint32_t>(from));
  EXPECT_EQ(take<uint32_t>(from), static_cast<uint32_t>(getpid()));
  for (std::string& name : file.kinds) name = take_name(from);
  for (Row& row : file.rows) row = take_row(from);
  EXPECT_EQ(from.peek(), std::char_traits<char>::eof());
  return file;
}

class Timeline : public testing::Test {
 protected:
  Timeline() : path_(testing::TempDir() + "timeline_test." + std::to_string(getpid())) {}
  ~Timeline() override { std::remove(path_.c_str()); }

  File written(const timeline& from) {
    EXPECT_TRUE(from.write(path_.c_str())) << std::strerror(errno);
    return read_file(path_);
  }

  std::string path_;
};

uint64_t monotonic_ns() {
  struct timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST_F(Timeline, EveryFieldOfAnEventComesBack) {
  timeline recorder(1, 10);
  track* const row = recorder.join("worker 1");
  const uint64_t far = (uint64_t{1} << 56) - 1, long_time = uint64_t{5} << 40;
  row->interval(kind::free_batch, 1000, 1000 + long_time, 77, UINT32_MAX);
  row->point(kind::epoch_change, far, 3, 9);
  row->sample(kind::unreclaimed, 12, track::max_value, 8);
  row->interval(kind::range_query, 50, 40, track::max_value + 5);
  const File file = written(recorder);
  ASSERT_EQ(file.rows.size(), 1u);
  EXPECT_EQ(file.rows[0].name, "worker 1");
  EXPECT_EQ(file.rows[0].thread_id, static_cast<uint64_t>(gettid()));
  const std::vector<Event>& events = file.rows[0].events;
  ASSERT_EQ(events.size(), 4u);
  const Event expected[] = {{1000, 0, 0, 77, long_time, UINT32_MAX},
                            {far, 1, 1, 3, 0, 9},
                            {12, 2, 2, track::max_value, 0, 8},
                            {50, 3, 0, track::max_value, 0, 0}};
  for (size_t at = 0; at < events.size(); at++) {
    EXPECT_TRUE(events[at] == expected[at]) << at;
    count_cases();
  }
}

TEST_F(Timeline, AFullRowDropsAndCounts) {
  timeline recorder(2, 5);
  track* const full = recorder.join("full");
  track* const other = recorder.join("other");
  for (uint64_t number = 0; number < 12; number++) full->point(kind::other, number, number);
  other->point(kind::other, 1, 1);
  const File file = written(recorder);
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].events.size(), 5u);
  EXPECT_EQ(file.rows[0].events.back().value, 4u);
  EXPECT_EQ(file.rows[0].dropped, 7u);
  EXPECT_EQ(file.rows[1].events.size(), 1u);
  EXPECT_EQ(file.rows[1].dropped, 0u);
  EXPECT_EQ(recorder.dropped(), 7u);
  count_cases();
}

TEST_F(Timeline, ThreadsWithoutARowAreCounted) {
  timeline recorder(2, 100);
  near_test::run_threads(5, [&recorder](size_t) {
    track* const row = recorder.join("some");
    ASSERT_NE(row, nullptr);
    for (uint64_t at = 0; at < 10; at++) row->point(kind::other, at);
    row->leave();
  });
  const File file = written(recorder);
  EXPECT_EQ(file.threads, 5u);
  EXPECT_EQ(file.rows.size(), 2u);  // threads that ended keep theirs
  EXPECT_EQ(file.dropped_no_row, 30u);
  EXPECT_EQ(recorder.dropped(), 30u);
  for (const Row& row : file.rows) {
    EXPECT_GE(row.left, row.joined);
    EXPECT_EQ(row.events.size(), 10u);
  }
  count_cases();
}

TEST_F(Timeline, NamesAreCutAndMayBeMissing) {
  timeline recorder(2, 1);
  recorder.join(nullptr);
  recorder.join("a name of more than thirty-one characters");
  const kind mine = recorder.define("compaction");
  const File file = written(recorder);
  EXPECT_EQ(file.rows[0].name, "");
  EXPECT_EQ(file.rows[1].name, "a name of more than thirty-one ");
  EXPECT_EQ(file.kinds[0], "free_batch");
  EXPECT_EQ(file.kinds[static_cast<unsigned>(mine)], "compaction");
  count_cases();
}

TEST_F(Timeline, KindsBeyondTheTableAreOther) {
  timeline recorder(1, 1);
  unsigned own = 0;
  for (int number = 0; number < 200; number++) {
    own += recorder.define(std::to_string(number).c_str()) != kind::other ? 1 : 0;
  }
  EXPECT_EQ(own, timeline::max_kinds - 5);
  EXPECT_EQ(written(recorder).kinds[5], "0");
  count_cases();
}

TEST_F(Timeline, AScopeIsAnInterval) {
  timeline recorder(1, 10);
  track* const row = recorder.join("main");
  const uint64_t before = timeline::now();
  {
    scope freeing(row, kind::free_batch, 4);
    freeing.count(17);
    const scope nothing(nullptr, kind::free_batch);
  }
  const uint64_t after = timeline::now();
  const File file = written(recorder);
  ASSERT_EQ(file.rows[0].events.size(), 1u);
  const Event event = file.rows[0].events[0];
  EXPECT_GE(event.begin, before);
  EXPECT_LE(event.begin + event.length, after);
  EXPECT_EQ(event.value, 4u);
  EXPECT_EQ(event.count, 17u);
  count_cases();
}

TEST_F(Timeline, AFileWrittenMeanwhileHoldsWholeEvents) {
  constexpr size_t kThreads = 2;
  const size_t events = near_test::scaled(200'000);
  timeline recorder(kThreads, events);
  near_test::Threads threads(kThreads, [&](size_t) {
    track* const row = recorder.join("busy");
    for (uint64_t at = 0; at < events; at++) {
      row->interval(kind::free_batch, at, 3 * at, at, static_cast<uint32_t>(at));
    }
  });
  for (int time = 0; time < 5; time++) {
    for (const Row& row : written(recorder).rows) {
      for (size_t at = 0; at < row.events.size(); at++) {
        const Event& event = row.events[at];
        ASSERT_TRUE(event.begin == at && event.length == 2 * at && event.value == at);
      }
    }
  }
  threads.join();
  for (const Row& row : written(recorder).rows) EXPECT_EQ(row.events.size(), events);
  count_cases();
}

TEST_F(Timeline, WithoutMemoryEverythingIsDropped) {
  timeline recorder(SIZE_MAX / 2, SIZE_MAX / 2);
  EXPECT_FALSE(recorder);
  recorder.join("main")->point(kind::other, 1);
  EXPECT_EQ(recorder.dropped(), 1u);
  const File file = written(recorder);
  EXPECT_TRUE(file.rows.empty());
  EXPECT_EQ(file.dropped_no_row, 1u);
  EXPECT_EQ(near_timeline_create(SIZE_MAX / 2, SIZE_MAX / 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  count_cases();
}

TEST_F(Timeline, AFileThatCannotBeWrittenIsAnError) {
  const timeline recorder(1, 1);
  errno = 0;
  EXPECT_FALSE(recorder.write("/nowhere/at/all"));
  EXPECT_EQ(errno, ENOENT);
  if (access("/dev/full", W_OK) == 0) {
    EXPECT_FALSE(recorder.write("/dev/full"));
    EXPECT_EQ(errno, ENOSPC);
  }
  count_cases();
}

TEST_F(Timeline, TheClockIsTheMonotonicOne) {
  const timeline first(1, 1);  // sets the clock
  uint64_t last = 0;
  for (int round = 0; round < 1000; round++) {
    const uint64_t before = monotonic_ns(), now = timeline::now(), after = monotonic_ns();
    // The rate was measured once; meanwhile the system's clock may have been adjusted.
    EXPECT_GE(now + 10'000'000, before);
    EXPECT_LE(now, after + 10'000'000);
    EXPECT_GE(now, last);
    last = now;
    count_cases();
  }
}

TEST_F(Timeline, TheInterfaceOfCDoesTheSame) {
  near_timeline* const recorder = near_timeline_create(1, 4);
  ASSERT_NE(recorder, nullptr);
  near_track* const row = near_timeline_join(recorder, "main");
  const unsigned mine = near_timeline_define(recorder, "mine");
  near_track_touch(row);
  near_track_interval(row, NEAR_FREE_BATCH, 1, 3, 5, 6);
  near_track_point(row, NEAR_EPOCH_CHANGE, 4, 7);
  near_track_sample(row, NEAR_UNRECLAIMED, 5, 8, 9);
  near_track_interval(row, mine, near_timeline_now(), near_timeline_now(), 0, 0);
  near_track_interval(row, mine, 0, 0, 0, 0);
  near_track_leave(row);
  EXPECT_EQ(near_timeline_dropped(recorder), 1u);
  EXPECT_EQ(near_timeline_write(recorder, path_.c_str()), 0);
  near_timeline_destroy(recorder);
  const File file = read_file(path_);
  ASSERT_EQ(file.rows[0].events.size(), 4u);
  EXPECT_EQ(file.rows[0].events[2].count, 9u);
  EXPECT_EQ(file.kinds[file.rows[0].events[3].kind], "mine");
  count_cases();
}

TEST_F(Timeline, NullInCDoesNothing) {
  EXPECT_EQ(near_timeline_join(nullptr, "main"), nullptr);
  EXPECT_EQ(near_timeline_define(nullptr, "mine"), unsigned{NEAR_OTHER});
  near_track_touch(nullptr);
  near_track_interval(nullptr, NEAR_FREE_BATCH, 1, 3, 5, 6);
  near_track_point(nullptr, NEAR_EPOCH_CHANGE, 4, 7);
  near_track_sample(nullptr, NEAR_UNRECLAIMED, 5, 8, 9);
  near_track_leave(nullptr);
  EXPECT_EQ(near_timeline_write(nullptr, "/nowhere/at/all"), 0);
  EXPECT_EQ(near_timeline_dropped(nullptr), 0u);
  near_timeline_destroy(nullptr);
  count_cases();
}

TEST_F(Timeline, TouchingKeepsWhatIsThere) {
  constexpr uint64_t kEvents = 1000;  // 6 pages of 4 KiB
  timeline recorder(1, kEvents);
  track& row = *recorder.join("main");
  for (uint64_t number = 0; number < kEvents; number++) {
    row.interval(kind::other, number, 3 * number, number);
    if (number % 100 == 0) row.touch();
  }
  row.touch();
  recorder.join("no row")->touch();
  const File file = written(recorder);
  for (uint64_t number = 0; number < kEvents; number++) {
    const Event& event = file.rows[0].events[number];
    ASSERT_TRUE(event.value == number && event.length == 2 * number) << number;
    count_cases();
  }
}

}  // namespace
