// Implements timelines: their memory, their rows, their file (docs/timeline.md).
// Invariant: rows_ holds max_rows_ strides of whole pages. Each has a word that is 1 once the rest
// is valid, the track, and its events. So two threads share no page, and a page is on the node of
// the thread that uses it, which touches it first. There is no other memory.
// Thread-safety: as the header says.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nearmalloc/reclaim/timeline.hpp>
#include <new>

#include "platform/clock.h"
#include "reclaim/timeline_clock.hpp"

namespace near::reclaim {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

constexpr const char* kPredefined[] = {"free_batch", "epoch_change", "unreclaimed", "range_query",
                                       "other"};
constexpr unsigned kPredefinedKinds = sizeof kPredefined / sizeof *kPredefined;
constexpr uint32_t kVersion = 1;
constexpr size_t kTrackAt = 64;  // in a row
constexpr size_t kEventsAt = kTrackAt + sizeof(track);
static_assert(kTrackAt % alignof(track) == 0);

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t kinds;
  uint64_t started;       // from now(), as are all other times
  uint64_t started_wall;  // nanoseconds since 1970
  uint64_t written;
  uint64_t capacity;        // events of a row
  uint64_t threads;         // how many joined, with a row or without
  uint64_t dropped_no_row;  // events of threads without a row
  uint32_t rows;
  uint32_t process;
};
static_assert(sizeof(FileHeader) == 72);

struct RowHeader {
  char name[32];
  uint64_t thread_id;
  uint64_t joined;
  uint64_t left;  // 0: not known
  uint64_t dropped;
  uint64_t events;  // how many follow
};
static_assert(sizeof(RowHeader) == 72);

void copy_name(char (&to)[32], const char* from) {
  std::strncpy(to, from != nullptr ? from : "", sizeof to - 1);
}

bool write_all(int file, const void* data, size_t size) {
  auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file, from, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    from += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace

// Writes zeros, which the memory beyond the last event already holds.
void track::touch() noexcept {
  constexpr uint64_t kPerPage = 4096 / sizeof(event);
  const uint64_t used = count_.load(std::memory_order_relaxed);  // relaxed: own writes
  for (uint64_t index = used; index < capacity_; index += kPerPage) {
    *static_cast<volatile uint64_t*>(&events_[index].value_length) = 0;
  }
}

void track::leave() noexcept {
  left_.store(timeline::now(), std::memory_order_relaxed);  // relaxed: nothing depends on it
}

void track::drop() noexcept {
  dropped_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a counter
}

timeline::timeline(size_t threads, size_t events_per_thread) noexcept
    : max_rows_(threads), capacity_(events_per_thread), kinds_(kPredefinedKinds) {
  calibrate_clock();
  started_ = now();
  started_wall_ = clock_ns(CLOCK_REALTIME);
  for (unsigned number = 0; number < kPredefinedKinds; number++) {
    copy_name(names_[number].text, kPredefined[number]);
    names_[number].defined.store(true, std::memory_order_release);  // pairs: timeline-kind
  }
  reserve();
}

void timeline::reserve() noexcept {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t events = 0, bytes = 0, total = 0;
  const bool fits = !__builtin_mul_overflow(capacity_, sizeof(track::event), &events) &&
                    !__builtin_add_overflow(events, kEventsAt + page - 1, &bytes) &&
                    !__builtin_mul_overflow(bytes & -page, max_rows_, &total);
  stride_ = bytes & -page;
  if (!fits) {
    errno = ENOMEM;
    return;
  }
  void* const memory = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) rows_ = static_cast<unsigned char*>(memory);
}

timeline::~timeline() {
  if (rows_ != nullptr) munmap(rows_, stride_ * max_rows_);
}

size_t timeline::rows_taken() const noexcept {
  if (rows_ == nullptr) return 0;
  // relaxed: each row says itself whether it is ready
  return std::min(threads_.load(std::memory_order_relaxed), max_rows_);
}

// Null while the row's thread is still in `join`.
const track* timeline::track_of(size_t index) const noexcept {
  std::atomic_ref<uint64_t> ready(*reinterpret_cast<uint64_t*>(row(index)));
  if (ready.load(std::memory_order_acquire) == 0) return nullptr;  // pairs: timeline-row
  return std::launder(reinterpret_cast<track*>(row(index) + kTrackAt));
}

track* timeline::join(const char* name) noexcept {
  const size_t index = threads_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a ticket
  if (index >= max_rows_ || rows_ == nullptr) return &overflow_;
  auto* const made = new (row(index) + kTrackAt) track;
  made->events_ = reinterpret_cast<track::event*>(row(index) + kEventsAt);
  made->capacity_ = capacity_;
  made->joined_at_ = now();
  made->thread_id_ = static_cast<uint64_t>(gettid());
  copy_name(made->name_, name);
  std::atomic_ref<uint64_t> ready(*reinterpret_cast<uint64_t*>(row(index)));
  ready.store(1, std::memory_order_release);  // pairs: timeline-row
  return made;
}

kind timeline::define(const char* name) noexcept {
  const unsigned number = kinds_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a ticket
  if (number >= max_kinds) {
    kinds_.store(max_kinds, std::memory_order_relaxed);  // relaxed: only keeps it from wrapping
    return kind::other;
  }
  copy_name(names_[number].text, name);
  names_[number].defined.store(true, std::memory_order_release);  // pairs: timeline-kind
  return static_cast<kind>(number);
}

uint64_t timeline::dropped() const noexcept {
  uint64_t sum = overflow_.dropped_.load(std::memory_order_relaxed);  // relaxed: a counter
  const size_t rows = rows_taken();
  for (size_t index = 0; index < rows; index++) {
    const track* const each = track_of(index);
    if (each == nullptr) continue;
    sum += each->dropped_.load(std::memory_order_relaxed);  // relaxed: a counter
  }
  return sum;
}

bool timeline::write(const char* path) const noexcept {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return false;
  const size_t rows = rows_taken();
  bool complete = write_header(file, static_cast<uint32_t>(rows)) && write_kinds(file);
  for (size_t index = 0; complete && index < rows; index++) complete = write_row(file, index);
  const int error = errno;
  if (close(file) != 0 && complete) return false;
  errno = error;
  return complete;
}

bool timeline::write_header(int file, uint32_t rows) const noexcept {
  FileHeader header{};
  std::memcpy(header.magic, "neartime", sizeof header.magic);
  header.version = kVersion;
  header.kinds = max_kinds;
  header.started = started_;
  header.started_wall = started_wall_;
  header.written = now();
  header.capacity = capacity_;
  header.threads = threads_.load(std::memory_order_relaxed);                   // relaxed: a counter
  header.dropped_no_row = overflow_.dropped_.load(std::memory_order_relaxed);  // relaxed: a counter
  header.rows = rows;
  header.process = static_cast<uint32_t>(getpid());
  return write_all(file, &header, sizeof header);
}

bool timeline::write_kinds(int file) const noexcept {
  char names[max_kinds][sizeof names_->text] = {};
  for (unsigned number = 0; number < max_kinds; number++) {
    const kind_name& each = names_[number];
    if (!each.defined.load(std::memory_order_acquire)) continue;  // pairs: timeline-kind
    std::memcpy(names[number], each.text, sizeof each.text);
  }
  return write_all(file, names, sizeof names);
}

bool timeline::write_row(int file, size_t index) const noexcept {
  RowHeader header{};
  const track* const from = track_of(index);
  if (from == nullptr) return write_all(file, &header, sizeof header);
  std::memcpy(header.name, from->name_, sizeof header.name);
  header.thread_id = from->thread_id_;
  header.joined = from->joined_at_;
  header.left = from->left_.load(std::memory_order_relaxed);        // relaxed: an extra
  header.dropped = from->dropped_.load(std::memory_order_relaxed);  // relaxed: a counter
  header.events = from->count_.load(std::memory_order_acquire);     // pairs: timeline-events
  return write_all(file, &header, sizeof header) &&
         write_all(file, from->events_, header.events * sizeof(track::event));
}

}  // namespace near::reclaim
