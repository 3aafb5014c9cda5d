// What the fuzz targets share: demands, faults on purpose, the count of inputs, and the environment
// of the process.
//
// A target is a libFuzzer program: LLVMFuzzerTestOneInput plays one input and returns, or ends the
// process by a demand that does not hold.
// Invariant: an input leaves nothing behind that the next one could see. The process prints
// "cases: N" at its end, where N counts inputs, and fails if N is 0.
// Thread-safety: the thread that plays an input; one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace near_test::fuzz {

// Ends the process with a line "wrong: ..." unless `condition` holds.
__attribute__((format(printf, 2, 3))) void demand(bool condition, const char* format, ...);

// True if the variable NEAR_FUZZ_FAULT has this value: the target then breaks what the code under
// test returns, to show that its checks notice.
bool has_fault(const char* name);

// Prints a line if NEAR_FUZZ_PRINT is set: what the target makes of its input.
__attribute__((format(printf, 1, 2))) void note(const char* format, ...);

void count_input();

// The library reads the environment before main: sets what the caller has not set, and starts the
// program again if there was any such variable.
void enter_environment(char** arguments, const std::pair<const char*, const char*>* wanted,
                       size_t count);

// The bytes of an input, taken from its beginning. Behind the end there are zeros.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  uint8_t u8() {
    if (left_ == 0) return 0;
    left_--;
    return *at_++;
  }
  uint16_t u16() { return static_cast<uint16_t>(u8() | u8() << 8); }
  size_t below(size_t bound) { return u8() % bound; }

 private:
  const uint8_t* at_;
  size_t left_;
};

}  // namespace near_test::fuzz
