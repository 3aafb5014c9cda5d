// Timelines: what each thread of a program did and when, recorded in memory and written to a file
// that `./near lab timeline` draws (threads as rows, intervals as boxes) or turns into a Perfetto
// trace.
//
//   near::reclaim::timeline recorder(threads, events_per_thread);
//   // in each thread:
//   near::reclaim::track* track = recorder.join("worker 3");
//   const uint64_t begin = near::reclaim::timeline::now();
//   ... free a batch of `count` objects of epoch `epoch` ...
//   track->interval(kind::free_batch, begin, near::reclaim::timeline::now(), epoch, count);
//   // at the end, or while the threads run:
//   if (!recorder.write("run.timeline")) perror("run.timeline");
//
// Memory: threads * (events_per_thread * 24 bytes, rounded up to pages), reserved once in the
// constructor, touched as it is used, never grown. Cost of an interval with its two readings of the
// clock: 25 ns, 30 to 35 with the page faults of a new row (Xeon, 2.3 GHz, virtual).
// Short events are recorded too. When a row is full, new events are dropped, and counted for each
// row; the file says how many.
//
// Invariant: the events of a row below its count are written and never change; the count of a row
// never exceeds its capacity.
// Thread-safety: only its own thread may use a track; any thread may call join, define and write at
// any time. The timeline must outlive the use of its tracks.
// [Kim23 §3.2]
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace near::reclaim {

// What an event is about. `timeline::define` makes more.
enum class kind : uint8_t {
  free_batch,    // an interval; value: the epoch of the batch, count: its objects
  epoch_change,  // a point; value: the new epoch
  unreclaimed,   // a sample; value: this thread's objects that wait, count: the epoch
  range_query,   // an interval; value: the recording thread's choice, count: keys visited
  other,         // what `define` returns when there is no room for another name
};

// The row of one thread. Only that thread may record in it.
class alignas(64) track {
 public:
  static constexpr uint64_t max_value = (uint64_t{1} << 48) - 1;

  // Records something that lasted from `begin` to `end`, both from `timeline::now`. A `value` above
  // max_value is recorded as max_value; an `end` before `begin` as `begin`.
  void interval(kind what, uint64_t begin, uint64_t end, uint64_t value = 0,
                uint32_t count = 0) noexcept {
    put(what, interval_shape, begin, end > begin ? end - begin : 0, value, count);
  }

  // Records something that happened at one moment.
  void point(kind what, uint64_t at, uint64_t value = 0, uint32_t count = 0) noexcept {
    put(what, point_shape, at, 0, value, count);
  }

  // Records a number that changes over time.
  void sample(kind what, uint64_t at, uint64_t value, uint32_t count = 0) noexcept {
    put(what, sample_shape, at, 0, value, count);
  }

  // Makes the row's memory present, so that no event causes a page fault. Optional: useful before a
  // measured part that recording should disturb as little as possible.
  void touch() noexcept;

  // Notes that the thread ends now. Optional: else its row ends with the timeline's last event.
  void leave() noexcept;

 private:
  friend class timeline;

  enum shape : uint64_t { interval_shape, point_shape, sample_shape };

  // 24 bytes, the same in memory and in the file: docs/timeline.md.
  struct event {
    uint64_t begin_kind_shape;  // nanoseconds (56 bits), kind (6), shape (2)
    uint64_t value_length;      // value (48), upper 16 bits of the length
    uint64_t length_count;      // lower 32 bits of the length, count (32)
  };
  static_assert(sizeof(event) == 24);

  void put(kind what, shape form, uint64_t begin, uint64_t length, uint64_t value,
           uint32_t count) noexcept {
    const uint64_t index = count_.load(std::memory_order_relaxed);  // relaxed: own writes
    if (index >= capacity_) [[unlikely]] {
      drop();
      return;
    }
    if (value > max_value) value = max_value;
    if (length > max_value) length = max_value;
    event& slot = events_[index];
    slot.begin_kind_shape = begin << 8 | static_cast<uint64_t>(what) << 2 | form;
    slot.value_length = value << 16 | length >> 32;
    slot.length_count = length << 32 | count;
    count_.store(index + 1, std::memory_order_release);  // pairs: timeline-events
  }

  void drop() noexcept;

  event* events_ = nullptr;
  uint64_t capacity_ = 0;
  std::atomic<uint64_t> count_{0};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<uint64_t> left_{0};  // 0: it has not
  uint64_t joined_at_ = 0;
  uint64_t thread_id_ = 0;
  char name_[32] = {};
};

class timeline {
 public:
  static constexpr unsigned max_kinds = 64;

  // Reserves the memory; the first timeline of the process also calibrates the clock (10 ms).
  timeline(size_t threads, size_t events_per_thread) noexcept;
  ~timeline();
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;

  // False if the memory could not be reserved (the constructor set errno): every event is then
  // dropped, and counted.
  explicit operator bool() const noexcept { return rows_ != nullptr; }

  // Makes a row for the calling thread; never null. A name longer than 31 bytes is cut; null is
  // allowed. A row is not reused when its thread ends. Threads beyond the last row share a track
  // that only counts what it drops, by an atomic addition, which perturbs what is measured.
  track* join(const char* name) noexcept;

  // Defines a kind. Call it once for a name. Each name after the 59th is `other`: five of the
  // max_kinds are predefined.
  kind define(const char* name) noexcept;

  // Nanoseconds of CLOCK_MONOTONIC (to 2 parts in a million since the first timeline), from the
  // processor's counter where the kernel also keeps time by it, else from clock_gettime.
  static uint64_t now() noexcept;

  // Writes all events so far into a file (docs/timeline.md has the format); what is recorded
  // meanwhile may be missing. False with errno if that failed; the file is then cut short, which
  // the reader notices.
  bool write(const char* path) const noexcept;

  // How many events were dropped so far, those of threads without a row included.
  uint64_t dropped() const noexcept;

 private:
  struct kind_name {
    std::atomic<bool> defined{false};
    char text[32] = {};
  };

  void reserve() noexcept;
  size_t rows_taken() const noexcept;
  unsigned char* row(size_t index) const noexcept { return rows_ + index * stride_; }
  const track* track_of(size_t index) const noexcept;
  bool write_header(int file, uint32_t rows) const noexcept;
  bool write_kinds(int file) const noexcept;
  bool write_row(int file, size_t index) const noexcept;

  unsigned char* rows_ = nullptr;
  size_t max_rows_;
  size_t capacity_;
  size_t stride_ = 0;
  uint64_t started_;
  uint64_t started_wall_;  // nanoseconds since 1970
  std::atomic<size_t> threads_{0};
  std::atomic<unsigned> kinds_;
  track overflow_;  // of threads that found no row
  kind_name names_[max_kinds];
};

// Records an interval from here to the end of the block; has no effect if `row` is null.
//
//   near::reclaim::scope freeing(track, kind::free_batch, epoch);
//   ...
//   freeing.count(objects);
class scope {
 public:
  scope(track* row, kind what, uint64_t value = 0) noexcept
      : row_(row), what_(what), value_(value), begin_(row != nullptr ? timeline::now() : 0) {}
  ~scope() {
    if (row_ != nullptr) row_->interval(what_, begin_, timeline::now(), value_, count_);
  }
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

  void value(uint64_t number) noexcept { value_ = number; }
  void count(uint32_t number) noexcept { count_ = number; }

 private:
  track* row_;
  kind what_;
  uint32_t count_ = 0;
  uint64_t value_;
  uint64_t begin_;
};

}  // namespace near::reclaim
