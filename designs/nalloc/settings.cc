#include "designs/nalloc/settings.h"

#include "base/bits.h"
#include "designs/nalloc/slab.h"

namespace near::design::nalloc {

constinit Settings settings;

namespace {

enum : unsigned { kCleanMib, kOrder, kWayward, kSteal, kKeep };

// nalloc0 has only the first.
Switch table[] = {
    {"clean_mib", nullptr, 0, 0, 1 << 20,
     "MiB of clean pages that keep their memory, beyond which it is given back; 0: no limit"},
    {"order", "contiguous|stack", 0, 0, 1, "where a slab's private blocks are taken first"},
    {"wayward", "beside|apart", 0, 0, 1, "whether the wayward stack has a cache line of its own"},
    {"steal", "off|on", 1, 0, 1, "whether the thread that completes a slab may keep it"},
    {"keep", nullptr, 5, 0, 1 << 16, "slabs of a class beyond which whole ones become clean"},
};

}  // namespace

std::span<Switch> switches() {
  const std::span<Switch> all = table;
  return kVariant.slabs ? all : all.first(1);
}

void apply_switches() {
  settings = {.stack_first = table[kOrder].value != 0,
              .wayward_apart = table[kWayward].value != 0,
              .header = sizeof(Slab) * (table[kWayward].value != 0 ? 2 : 1),
              .steal = table[kSteal].value != 0,
              .keep = static_cast<unsigned>(table[kKeep].value),
              .clean_pages = static_cast<size_t>(table[kCleanMib].value) * kMiB / kPage};
}

}  // namespace near::design::nalloc
