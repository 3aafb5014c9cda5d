// A copy of all sites in a file, which is there however the process ends: also by a signal, or by
// _exit. tools/nearmalloc_tools/profile/kept.py reads it.
//
// The file is mapped; the process writes to it and never reads it, and another process that keeps a
// profile under the same name gets a new file. Room for the file is allocated at the start. If
// another program truncates the file, the next write ends the process by SIGBUS.
// Invariant: after each change of a site, its copy and the numbers of the whole are equal to those
// of the profiler, except while they are written.
// Its room is part of the profiler's own memory (profiler.h, kMostOwnBytes).
// Thread-safety: the caller holds the profiler's lock.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "platform/address.h"
#include "profile/profiler.h"

namespace near::profile {

struct KeptHeader {
  char magic[8];
  uint32_t site_bytes;
  uint32_t modules;  // in the list
  uint32_t pid;
  uint32_t layout_bytes;     // of the whole file
  uint32_t dropped_modules;  // that have no room in the list; kKnown are told apart
  uint32_t changing;         // 1: the numbers of sites change now, and stacks are wrong
  uint64_t inherited;        // bytes that were allocated in the parents of a child of fork
  uint64_t peak_number;
  Summary summary;
};

struct KeptModule {
  uint64_t start;
  uint64_t end;
  uint64_t base;        // what is added to the addresses in the file
  uint16_t name;        // where it begins in `names`
  uint8_t build_id[6];  // its first bytes; all zero: it has none, or that is not known
};

class Kept {
 public:
  static constexpr size_t kModules = 256;
  static constexpr size_t kKnown = 320;
  static constexpr size_t kNameBytes = 28 * kKiB;
  static_assert(kNameBytes <= 0x10000);
  struct Layout {
    KeptHeader header;
    alignas(4096) KeptModule modules[kModules];
    alignas(4096) char names[kNameBytes];                 // each ends with a zero
    alignas(4096) uint64_t addresses[Table::kAddresses];  // of calls
    alignas(4096) uint16_t frames[Table::kFrames];        // numbers of addresses
    alignas(4096) Site sites[Table::kSites];
  };

  // Maps a file; with `list` also lists the code that is loaded, else each file when an address in
  // it comes. Without the lock, because a thread that loads code may wait for it; before `open`, by
  // one thread. False if the system refuses.
  bool prepare(int file, bool list);
  // Begins to keep in the file that was prepared.
  void open() { file_ = prepared_; }
  // The file keeps what it has. False if none was open.
  bool close();
  bool is_open() const { return file_ != nullptr; }

  // Called when the profiler forgets all sites.
  void start_anew() { sites_ = 0; }
  // Copies a site, and those that are new since the last call; all if the table has folded some.
  // The other `update` must follow.
  void update(Table& table, const Site& site);
  void update(const Summary& summary, uint64_t peak_number);
  void set_inherited(uint64_t bytes) { file_->header.inherited = bytes; }

 private:
  friend struct Listing;
  bool add_name(const char* name);
  void add_module(const LoadedFile& found, const ElfW(Phdr) * segments, unsigned count);
  void find_module(uintptr_t address);

  Layout* prepared_ = nullptr;
  Layout* file_ = nullptr;
  // How much is in the file, which is never read.
  uint32_t modules_ = 0;
  uint32_t known_count_ = 0;
  uint32_t last_known_ = 0;  // that had an address
  uint32_t name_bytes_ = 0;
  uint32_t sites_ = 0;  // whose frames are in the file
  uint32_t folds_ = 0;  // of the table, when it was last copied
  struct Range {
    uintptr_t start = 0;
    uintptr_t end = 0;
  };
  Range known_[kKnown] = {};  // those of the file's list, and of files that have no room there
};

}  // namespace near::profile
