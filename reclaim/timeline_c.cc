// Timelines in C: each function of timeline.h is one call of timeline.hpp.
// Invariant: a near_timeline is a timeline in pages of its own, a near_track is a track.
// Thread-safety: as timeline.hpp says.
#include <nearmalloc/reclaim/timeline.h>
#include <sys/mman.h>

#include <cerrno>
#include <nearmalloc/reclaim/timeline.hpp>
#include <new>

using near::reclaim::kind;
using near::reclaim::timeline;
using near::reclaim::track;

namespace {

timeline* timeline_of(near_timeline* from) { return reinterpret_cast<timeline*>(from); }

const timeline* timeline_of(const near_timeline* from) {
  return reinterpret_cast<const timeline*>(from);
}

track* track_of(near_track* from) { return reinterpret_cast<track*>(from); }

}  // namespace

extern "C" {

near_timeline* near_timeline_create(size_t threads, size_t events_per_thread) {
  void* const place =
      mmap(nullptr, sizeof(timeline), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  auto* const made = new (place) timeline(threads, events_per_thread);
  if (*made) return reinterpret_cast<near_timeline*>(made);
  const int error = errno;
  near_timeline_destroy(reinterpret_cast<near_timeline*>(made));
  errno = error;
  return nullptr;
}

void near_timeline_destroy(near_timeline* from) {
  if (from == nullptr) return;
  timeline_of(from)->~timeline();
  munmap(from, sizeof(timeline));
}

uint64_t near_timeline_now() { return timeline::now(); }

unsigned near_timeline_define(near_timeline* to, const char* name) {
  return static_cast<unsigned>(to != nullptr ? timeline_of(to)->define(name) : kind::other);
}

near_track* near_timeline_join(near_timeline* to, const char* name) {
  return to != nullptr ? reinterpret_cast<near_track*>(timeline_of(to)->join(name)) : nullptr;
}

int near_timeline_write(const near_timeline* from, const char* path) {
  return from == nullptr || timeline_of(from)->write(path) ? 0 : -1;
}

uint64_t near_timeline_dropped(const near_timeline* from) {
  return from != nullptr ? timeline_of(from)->dropped() : 0;
}

void near_track_interval(near_track* to, unsigned what, uint64_t begin, uint64_t end,
                         uint64_t value, uint32_t count) {
  if (to != nullptr) track_of(to)->interval(static_cast<kind>(what), begin, end, value, count);
}

void near_track_point(near_track* to, unsigned what, uint64_t at, uint64_t value) {
  if (to != nullptr) track_of(to)->point(static_cast<kind>(what), at, value);
}

void near_track_sample(near_track* to, unsigned what, uint64_t at, uint64_t value, uint32_t count) {
  if (to != nullptr) track_of(to)->sample(static_cast<kind>(what), at, value, count);
}

void near_track_touch(near_track* to) {
  if (to != nullptr) track_of(to)->touch();
}

void near_track_leave(near_track* to) {
  if (to != nullptr) track_of(to)->leave();
}

}  // extern "C"
