// Restores errno at the end of a scope: `free` must not change it, and platform functions report a
// refused call by their result.
// Thread-safety: any thread; errno belongs to the thread.
#pragma once

#include <cerrno>

namespace near {

class SavedErrno {
 public:
  SavedErrno() : value_(errno) {}
  ~SavedErrno() { errno = value_; }
  SavedErrno(const SavedErrno&) = delete;
  SavedErrno& operator=(const SavedErrno&) = delete;

 private:
  int value_;
};

}  // namespace near
