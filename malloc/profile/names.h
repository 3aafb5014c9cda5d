// The names that the dynamic linker knows for the frames of all sites.
//
// dladdr(3) goes through all symbols of a file for each address: half a minute for a full table of
// addresses in Node. Here each file's symbols are gone through once.
// Invariant: a name is the one that dladdr would give. It lies in the file that has the symbol, and
// is valid while that is loaded.
// Thread-safety: the thread that made the object. The constructor may wait for the dynamic linker.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::profile {

class Names {
 public:
  Names();
  ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // The name of the function that has the call; null if it has none, or if no site had the call
  // when this object was made.
  const char* of(uintptr_t call) const;

 private:
  friend struct Naming;
  struct Entry {
    uintptr_t call;
    uintptr_t start;  // of the symbol
    const char* name;
  };

  Entry* first_from(uintptr_t call) const;

  Entry* entries_;  // in the order of `call`
  size_t count_ = 0;
};

}  // namespace near::profile
