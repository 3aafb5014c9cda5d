// A key whose comparisons sometimes let another thread run, so that threads meet in the middle of
// operations, also on machines with few processors; or they let a test run code of its own there.
//
// Invariant: a key behaves as an int64_t in every other respect.
// Thread-safety: it is a plain value; each thread has its own dice.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <thread>

namespace near_test {

class Key {
 public:
  Key() = default;
  constexpr Key(int64_t value) : value_(value) {}  // not explicit: tests write numbers
  explicit constexpr operator int64_t() const { return value_; }
  explicit constexpr operator uint64_t() const { return static_cast<uint64_t>(value_); }

  friend bool operator==(const Key& one, const Key& other) {
    jitter();
    return one.value_ == other.value_;
  }
  friend std::strong_ordering operator<=>(const Key& one, const Key& other) {
    jitter();
    return one.value_ <=> other.value_;
  }

  // The calling thread jitters from now on; with 0 it stops.
  static void seed_jitter(uint32_t seed) { dice_ = seed; }

  // Runs `hook` before each comparison of the calling thread; null: runs nothing.
  static void set_hook(void (*hook)()) { hook_ = hook; }

 private:
  static void jitter() {
    if (hook_ != nullptr) hook_();
    if (dice_ == 0) return;
    dice_ = dice_ * 1664525 + 1013904223;
    const uint32_t drawn = dice_ >> 20;
    if (drawn % 64 == 0) std::this_thread::yield();
    // Long enough for the others to unlink, retire and free what this thread is about to read.
    if (drawn == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  static inline thread_local uint32_t dice_ = 0;
  static inline thread_local void (*hook_)() = nullptr;
  int64_t value_ = 0;
};

}  // namespace near_test

template <>
struct std::hash<near_test::Key> {
  size_t operator()(const near_test::Key& key) const noexcept {
    return static_cast<size_t>(static_cast<uint64_t>(key));
  }
};
