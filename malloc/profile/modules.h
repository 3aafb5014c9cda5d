// The code that is loaded now, by which a tool finds the names of addresses later: the segments of
// files, with their build ids.
// Thread-safety: the thread that made the object. The constructor takes the dynamic linker's lock:
// in a handler, that of the profile's signal, only if its thread was not loading code
// (docs/profile.md, "What it does not say").
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace near::profile {

struct Module {
  uintptr_t start;  // page-aligned, as in /proc/self/maps
  uintptr_t end;
  uint64_t offset;   // of `start` in the file
  const char* name;  // the file; valid while it is loaded
  uint8_t build_id[20];
  uint8_t build_id_bytes;  // 0: it has none
};

// Reads the build id of a loaded file in its segments of notes; none if it has none.
void read_build_id(const ElfW(Phdr) * segments, unsigned count, uintptr_t base, Module& out);

class Modules {
 public:
  static constexpr size_t kMost = 512;

  // Lists at most `most` segments, up to kMost.
  explicit Modules(size_t most = kMost);
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  size_t count() const { return count_; }
  // The segments of code that had no room in the list. All their addresses are unknown.
  size_t dropped() const { return dropped_; }
  const Module& operator[](size_t index) const { return modules_[index]; }

  // The index of the module that holds the address; count() if there is none.
  size_t find(uintptr_t address) const;

  // The build id in hexadecimal; `out` has room for 41 bytes.
  static void print_build_id(const Module& module, char* out);

 private:
  friend struct Collect;
  Module* modules_;
  size_t most_;
  size_t count_ = 0;
  size_t dropped_ = 0;
  char program_[512];  // the path of the program's own file
};

}  // namespace near::profile
