#include "designs/numalloc/settings.h"

namespace near::design::numalloc {
namespace {

enum Index : unsigned { kBinding, kOriginAware, kThp, kSharing, kBatch, kSwitches };

Switch table[kSwitches] = {
    {"binding", "interleave|saturate|file:|off", 0, 0, 3,
     "which node a new thread is bound to [Yang23 §3.2]; file:PATH: rules, see README.md"},
    {"origin_aware", "off|on", 1, 0, 1,
     "on: a freed small object goes to its own node; off: to the thread that frees it [§4.4.2]"},
    {"thp", "off|on", 1, 0, 1,
     "on: small objects beyond the first 2 MiB of a node on huge pages; off: no huge pages "
     "[§4.4.3]"},
    {"sharing", "per_thread|incremental", 1, 0, 1,
     "incremental: the threads of a node share a huge page; per_thread: each has its own [§3.4]"},
    {"batch", "page|bag", 0, 0, 1,
     "how much moves between a thread and its node at a time: 4 KiB of objects, or 32 KiB"},
};

}  // namespace

constinit Settings settings;

std::span<Switch> switches() { return table; }

void apply_switches() {
  settings.origin_aware = table[kOriginAware].value != 0;
  settings.huge_pages = table[kThp].value != 0;
  settings.incremental = table[kSharing].value != 0;
  for (unsigned c = 1; c < kClasses; c++) {
    settings.batch[c] = table[kBatch].value != 0 ? bag_batch(c) : page_batch(c);
  }
}

}  // namespace near::design::numalloc
