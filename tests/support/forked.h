// A part of a test in a forked child.
// Thread-safety: any thread; the child has that thread alone.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace near_test {

// Waits for a child's end. Returns its status, as of waitpid; -1 if there is no such child.
inline int status_of(pid_t child) {
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

// Runs `live` in a forked child, which exits with its result. Returns the child's status. A child
// that hangs is killed.
template <typename Live>
int run_in_child(const Live& live) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(live());
  }
  return status_of(child);
}

}  // namespace near_test
