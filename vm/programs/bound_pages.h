// Memory and threads in known places of a guest: pages bound to a node, and what the kernel reports
// about them.
//
// Invariant: what map_on() returned lies on its node alone, as far as it is present. An error ends
// the program with status 1 and a line that names it. Thread-safety: any thread.
// Source: mbind(2), move_pages(2), getcpu(2), called directly: no libnuma in the guest.
#pragma once

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace numa_guest {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr unsigned kMostNodes = 64;

[[noreturn]] inline void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

// The numbers of a list as the kernel writes it, 0-3,8.
inline std::vector<unsigned> numbers_in(const std::string& path) {
  std::vector<unsigned> numbers;
  std::ifstream file(path);
  for (std::string part; std::getline(file, part, ',');) {
    std::istringstream range(part);
    unsigned first = 0, last = 0;
    char dash = 0;
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (unsigned number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

inline std::vector<unsigned> nodes_with_memory() {
  return numbers_in("/sys/devices/system/node/has_memory");
}
inline std::vector<unsigned> cpus_online() { return numbers_in("/sys/devices/system/cpu/online"); }

// Binds these pages: once touched, they can only come from that node.
inline void bind_to(unsigned node, char* pages, size_t bytes) {
  const unsigned long mask = 1UL << node;
  if (syscall(SYS_mbind, pages, bytes, MPOL_BIND, &mask, kMostNodes + 1, 0) != 0) fail("mbind");
}

// Untouched pages that can only come from that node; either huge pages only, or none.
inline char* map_on(unsigned node, size_t bytes, bool huge) {
  void* const pages = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  const auto begin = (reinterpret_cast<uintptr_t>(pages) + kHugePage - 1) & ~(kHugePage - 1);
  char* const aligned = reinterpret_cast<char*>(begin);
  madvise(aligned, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  bind_to(node, aligned, bytes);
  return aligned;
}

// How many of the pages at these places do not lie on the node.
inline size_t pages_elsewhere(const std::vector<void*>& places, unsigned node) {
  std::vector<int> found(places.size());
  std::vector<void*> pages = places;
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, found.data(), 0) != 0) {
    fail("move_pages");
  }
  size_t elsewhere = 0;
  for (const int where : found) elsewhere += where != static_cast<int>(node) ? 1 : 0;
  return elsewhere;
}

inline void pin_to(unsigned cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (sched_setaffinity(0, sizeof only, &only) != 0) fail("sched_setaffinity");
}

struct Place {
  unsigned cpu;
  unsigned node;
};

inline Place here() {
  Place place{};
  if (syscall(SYS_getcpu, &place.cpu, &place.node, nullptr) != 0) fail("getcpu");
  return place;
}

}  // namespace numa_guest
