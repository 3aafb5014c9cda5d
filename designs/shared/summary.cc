// Compiled for each design: mallinfo and related calls, counters, the summary at exit.
#include "designs/shared/summary.h"

#include <cerrno>

#include "base/bits.h"
#include "designs/shared/life.h"
#include "nearmalloc/nearmalloc.h"
#include "platform/message.h"
#include "this_design.h"

namespace near::design {
namespace {

#define NEAR_TEXT_OF(x) #x
#define NEAR_TEXT(x) NEAR_TEXT_OF(x)
constexpr char kVersion[] = NEAR_TEXT(NEAR_VERSION_MAJOR) "." NEAR_TEXT(
    NEAR_VERSION_MINOR) "." NEAR_TEXT(NEAR_VERSION_PATCH);

Footprint footprint() { return start() ? ThisDesign::footprint() : Footprint(); }

}  // namespace

void print_summary() {
  const Footprint now = footprint();
  print("%s %s: %lu KiB in use (%lu KiB of it large blocks), %lu KiB committed, %lu MiB reserved\n",
        ThisDesign::kName, kVersion, now.in_use / kKiB, now.large / kKiB, now.committed / kKiB,
        now.reserved / kMiB);
  Counter counters[kMaxCounters];
  const size_t count = near_design_counters(counters);
  for (size_t i = 0; i < count; i++) {
    print("%s %s: %s: %lu\n", ThisDesign::kName, kVersion, counters[i].name, counters[i].value);
  }
}

}  // namespace near::design

using near::design::ThisDesign;

extern "C" {

const char* near_design_name(void) noexcept { return ThisDesign::kName; }

size_t near_design_counters(near::design::Counter* out) noexcept {
  return near::design::start() ? ThisDesign::counters(out) : 0;
}

NEAR_API int near_malloc_trim(size_t) noexcept {
  return near::design::start() && ThisDesign::trim() ? 1 : 0;
}

NEAR_API struct mallinfo2 near_mallinfo2(void) noexcept {
  const near::design::Footprint now = near::design::footprint();
  struct mallinfo2 info{};
  info.arena = now.committed - now.large;
  info.hblks = now.large_blocks;
  info.hblkhd = now.large;
  info.uordblks = now.in_use - now.large;
  info.fordblks = now.committed - now.in_use;
  return info;
}

NEAR_API void near_malloc_stats(void) noexcept { near::design::print_summary(); }

NEAR_API int near_malloc_info(int options, FILE* stream) noexcept {
  if (options != 0) return EINVAL;
  const near::design::Footprint now = near::design::footprint();
  fprintf(stream,
          "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n</heap>\n"
          "<total type=\"rest\" count=\"0\" size=\"%lu\"/>\n"
          "<total type=\"mmap\" count=\"%lu\" size=\"%lu\"/>\n"
          "<system type=\"current\" size=\"%lu\"/>\n<aspace type=\"total\" size=\"%lu\"/>\n"
          "</malloc>\n",
          now.committed - now.in_use, now.large_blocks, now.large, now.committed, now.reserved);
  return 0;
}

}  // extern "C"
