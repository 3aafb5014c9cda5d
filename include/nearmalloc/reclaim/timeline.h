/* Timelines in C: what each thread did and when. Each function calls one of timeline.hpp, which is
 * the manual; docs/timeline.md shows a program.
 *
 * Every function accepts a null timeline or track and then does nothing, so that a program can
 * leave its calls in place and record only on demand.
 * Thread-safety: only its own thread may use a track; any thread may call the rest.
 */
#ifndef NEARMALLOC_RECLAIM_TIMELINE_H
#define NEARMALLOC_RECLAIM_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct near_timeline;
struct near_track;

/* What an event is about; near_timeline_define makes more. */
enum {
  NEAR_FREE_BATCH,   /* an interval; value: epoch, count: objects */
  NEAR_EPOCH_CHANGE, /* a point; value: epoch */
  NEAR_UNRECLAIMED,  /* a sample; value: objects, count: epoch */
  NEAR_RANGE_QUERY,  /* an interval; count: keys */
  NEAR_OTHER
};

/* Returns NULL with errno if there is no memory. */
struct near_timeline* near_timeline_create(size_t threads, size_t events_per_thread);
/* Its tracks must not be used afterwards. */
void near_timeline_destroy(struct near_timeline* timeline);

/* Nanoseconds. */
uint64_t near_timeline_now(void);
unsigned near_timeline_define(struct near_timeline* timeline, const char* name);
struct near_track* near_timeline_join(struct near_timeline* timeline, const char* name);
/* Returns 0, or -1 with errno. */
int near_timeline_write(const struct near_timeline* timeline, const char* path);
uint64_t near_timeline_dropped(const struct near_timeline* timeline);

void near_track_interval(struct near_track* track, unsigned kind, uint64_t begin, uint64_t end,
                         uint64_t value, uint32_t count);
void near_track_point(struct near_track* track, unsigned kind, uint64_t at, uint64_t value);
void near_track_sample(struct near_track* track, unsigned kind, uint64_t at, uint64_t value,
                       uint32_t count);
void near_track_touch(struct near_track* track);
void near_track_leave(struct near_track* track);

#ifdef __cplusplus
}
#endif

#endif
