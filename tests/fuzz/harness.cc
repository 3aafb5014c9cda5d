#include "fuzz/harness.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace near_test::fuzz {
namespace {

size_t inputs = 0;

void print_cases() {
  std::fprintf(stderr, "cases: %zu\n", inputs);
  if (inputs == 0) _exit(1);
}

// libFuzzer ends by exit.
const bool registered = std::atexit(print_cases) == 0;

}  // namespace

void count_input() { inputs += registered ? 1 : 0; }

void demand(bool condition, const char* format, ...) {
  if (condition) return;
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "wrong: ");
  std::vfprintf(stderr, format, arguments);
  std::fprintf(stderr, "\n");
  va_end(arguments);
  std::abort();
}

bool has_fault(const char* name) {
  static const char* chosen = std::getenv("NEAR_FUZZ_FAULT");
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

void note(const char* format, ...) {
  static const bool wanted = std::getenv("NEAR_FUZZ_PRINT") != nullptr;
  if (!wanted) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  std::fprintf(stderr, "\n");
  va_end(arguments);
}

void enter_environment(char** arguments, const std::pair<const char*, const char*>* wanted,
                       size_t count) {
  bool is_there = true;
  for (size_t i = 0; i < count; i++) {
    const auto& [name, value] = wanted[i];
    is_there = is_there && std::getenv(name) != nullptr;
    setenv(name, value, 0);
  }
  if (is_there) return;
  execv("/proc/self/exe", arguments);
  std::perror("cannot start again");
  std::exit(2);
}

}  // namespace near_test::fuzz
