// Marking on a processor that has no markers.
#include <cstdio>
#include <cstdlib>

#include "marking.h"

namespace workload::marking {

void enable() {
  std::fprintf(stderr, "--mark is for x86-64 alone\n");
  std::exit(2);
}
void exclude_thread() {}
void exclude(const void*, size_t) {}
void include(const void*, size_t) {}
void begin() {}
void end() {}

}  // namespace workload::marking
