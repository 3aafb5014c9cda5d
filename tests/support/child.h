// A program run as a child with a changed environment, and what it printed.
// Invariant: it is a new process, so it goes through the library's start with that environment.
// Where a program needs an emulator, NEAR_TEST_EMULATOR holds its command, words between blanks.
// Thread-safety: any thread.
#pragma once

#include <string>
#include <vector>

namespace near_test {

struct Ended {
  int status;          // as of waitpid
  std::string output;  // standard output and error, in the order of arrival

  bool well() const { return status == 0; }
};

// `environment`: NAME=VALUE, on top of the caller's without its NEARMALLOC_* and NEAR_FAKE_OS.
Ended run_child(const std::vector<std::string>& command,
                const std::vector<std::string>& environment);

// The path of this program.
std::string own_path();

}  // namespace near_test
