// Keeps errno over a scope: `free` must not change it, and a refused call is reported by value.
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
