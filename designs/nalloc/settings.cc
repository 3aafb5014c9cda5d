#include "designs/nalloc/settings.h"

#include "base/bits.h"
#include "designs/nalloc/slab.h"

namespace near::design::nalloc {

constinit Settings settings;

namespace {

enum : unsigned { kCleanMib, kBatch, kPopulate, kAlign, kOrder, kWayward, kSteal, kKeep, kTable };
constexpr size_t kOfPages = kAlign + 1;  // the switches of nalloc0, too

Switch table[] = {
    {"clean_mib", nullptr, 0, 0, 1 << 20,
     "MiB of clean pages that keep their memory, beyond which it is given back; 0: no limit"},
    {"batch", "1|2|4|8|16|32|64|128|256|512", 4, 0, 9,
     "pages that a heap takes from the arena at a time"},
    {"populate", "off|on", 0, 0, 1, "whether the system makes these pages resident at once"},
    {"align", "bits|division", 0, 0, 1, "how the page of a block is found"},
    {"order", "contiguous|stack", 0, 0, 1, "where a slab's private blocks are taken first"},
    {"wayward", "beside|apart", 0, 0, 1, "whether the wayward stack has a cache line of its own"},
    {"steal", "off|on", 1, 0, 1, "whether the thread that completes a slab may keep it"},
    {"keep", nullptr, 5, 0, 1 << 16, "slabs of a class beyond which whole ones become clean"},
    {"classes", "arithmetic|table", 0, 0, 1, "how the class of a size is found"},
};

}  // namespace

std::span<Switch> switches() {
  const std::span<Switch> all = table;
  return kVariant.slabs ? all : all.first(kOfPages);
}

uint8_t class_table[kLargest / kSmallest + 1];

void apply_switches() {
  settings = {.stack_first = table[kOrder].value != 0,
              .wayward_apart = table[kWayward].value != 0,
              .header = sizeof(Slab) * (table[kWayward].value != 0 ? 2 : 1),
              .steal = table[kSteal].value != 0,
              .keep = static_cast<unsigned>(table[kKeep].value),
              .clean_pages = static_cast<size_t>(table[kCleanMib].value) * kMiB / kPage,
              .batch = 1U << table[kBatch].value,
              .populate = table[kPopulate].value != 0,
              .class_table = table[kTable].value != 0,
              .divisor = table[kAlign].value != 0 ? kPage : 0};
  if (!settings.class_table) return;
  for (size_t i = 0; i < sizeof(class_table); i++) {
    class_table[i] = static_cast<uint8_t>(class_of(i * kSmallest));
  }
}

}  // namespace near::design::nalloc
