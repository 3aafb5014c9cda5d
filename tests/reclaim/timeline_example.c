/* The recorder from C: one thread, a kind of its own, a file. */
#include <nearmalloc/reclaim/timeline.h>
#include <stdio.h>

int main(int count, char** words) {
  struct near_timeline* timeline = near_timeline_create(1, 1000);
  struct near_track* track = near_timeline_join(timeline, "main");
  unsigned sums = near_timeline_define(timeline, "sums");
  for (int round = 0; round < 100; round++) {
    const uint64_t begin = near_timeline_now();
    volatile int sum = 0;
    for (int number = 0; number < 10000; number++) sum += number;
    near_track_interval(track, sums, begin, near_timeline_now(), (uint64_t)round, 10000);
  }
  const int failed = count < 2 || near_timeline_write(timeline, words[1]) != 0;
  if (failed) perror("timeline");
  near_timeline_destroy(timeline);
  return failed;
}
