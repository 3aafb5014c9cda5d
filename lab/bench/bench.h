// What the bench programs share: arguments, random sizes, threads that start together, the result.
//
// A program is `int main(argc, argv)` with a Bench: it declares its options, does its work, and
// reports one JSON line: name, seconds of the measured region, operations (a malloc with its free
// is one), a checksum that depends on the options alone, which malloc served it, and its memory.
// Invariant: equal options give equal work, whatever the allocator and the machine.
#pragma once

#include <CLI/CLI.hpp>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "own_memory.h"

namespace bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// xorshift64* [Vigna, An experimental exploration of Marsaglia's xorshift generators, 2016].
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d) {}

  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }

  // Uniform in [0, bound), bound < 2^32.
  size_t below(size_t bound) { return static_cast<size_t>(((next() >> 32) * bound) >> 32); }

 private:
  uint64_t state_;
};

// Sizes from `low` to `high`, each factor of two equally likely: most requests are small.
class Sizes {
 public:
  Sizes(size_t low, size_t high) {
    const double range = std::log(static_cast<double>(high) / static_cast<double>(low));
    for (size_t i = 0; i < kSteps; ++i) {
      const double part = static_cast<double>(i) / (kSteps - 1);
      table_[i] =
          static_cast<uint32_t>(std::lround(static_cast<double>(low) * std::exp(range * part)));
    }
  }

  size_t pick(Random& random) const { return table_[random.next() >> (64 - kBits)]; }

 private:
  static constexpr int kBits = 10;
  static constexpr size_t kSteps = size_t{1} << kBits;
  uint32_t table_[kSteps];
};

// A block whose first and last byte are written, as a program that asked for it would.
inline char* take(size_t size) {
  char* const block = static_cast<char*>(std::malloc(size));
  if (block == nullptr) {
    std::fprintf(stderr, "malloc(%zu) failed\n", size);
    std::exit(1);
  }
  block[0] = static_cast<char>(size);
  block[size - 1] = static_cast<char>(size);
  return block;
}

// Runs body(0) ... body(threads - 1), each in its thread. Returns the seconds from the moment all
// are there to the moment the last has finished.
template <typename Body>
double run_threads(int threads, Body body) {
  std::barrier all(threads + 1);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&all, &body, i] {
      all.arrive_and_wait();
      body(i);
      all.arrive_and_wait();
    });
  }
  all.arrive_and_wait();
  const double start = now();
  all.arrive_and_wait();
  const double seconds = now() - start;
  for (std::thread& thread : running) thread.join();
  return seconds;
}

class Bench {
 public:
  Bench(const char* name, const char* description) : name_(name), options_(description, name) {}

  template <typename T>
  void option(const char* flag, T& value, const char* description) {
    options_.add_option(flag, value, description)
        ->capture_default_str()
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  // Reads the arguments; ends the program on --help and on a wrong one.
  void parse(int argc, char** argv) {
    try {
      options_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      std::exit(options_.exit(error));
    }
  }

  // One more number in the result.
  void add(const char* key, double value) {
    char text[64];
    std::snprintf(text, sizeof text, ", \"%s\": %.9g", key, value);
    more_ += text;
  }

  int report(double seconds, uint64_t operations, uint64_t checksum) const {
    const struct memory_use memory = own_memory();
    std::printf(
        "{\"name\": \"%s\", \"seconds\": %.9f, \"operations\": %llu, \"checksum\": \"%llx\", "
        "\"malloc_from\": \"%s\", \"vm_hwm_kib\": %ld, \"vm_pte_kib\": %ld%s}\n",
        name_, seconds, static_cast<unsigned long long>(operations),
        static_cast<unsigned long long>(checksum), malloc_from(), memory.hwm_kib, memory.pte_kib,
        more_.c_str());
    return std::fflush(stdout) == 0 ? 0 : 1;
  }

 private:
  const char* name_;
  CLI::App options_;
  std::string more_;
};

}  // namespace bench
