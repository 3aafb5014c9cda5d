#include "designs/scalloc/settings.h"

#include "platform/fence.h"

namespace near::design::scalloc {
namespace {

enum Which { kMadvise, kSpanPool, kReclaim, kReuseThreshold, kLab, kThp, kVirtual, kGuard, kFront };

Switch table[] = {
    {"madvise", "off|on|eager", 1, 0, 2,
     "give the pages of a free span back: never; of real spans above 32 KiB; of all"},
    {"span_pool", "per_core|single", 0, 0, 1, "Treiber stacks for each real-span size"},
    {"reclaim", "free|allocation", 0, 0, 1,
     "when an empty span leaves the frontend: at its last free; when a span is looked for"},
    {"reuse_threshold", nullptr, 80, 0, 100,
     "percent of a span's blocks; more free ones make it reusable"},
    {"lab", "tlab|clab", 0, 0, 1, "a local allocation buffer for each thread; for each core"},
    {"thp", "off|on", 0, 0, 1, "transparent huge pages in the arena, which then has no guards"},
    {"virtual_span", "2|4|8|16|32|64|128", 1, 1, 7, "MiB of addresses for each span"},
    {"guard", "markers|mprotect|off", 0, 0, 2,
     "what makes memory behind a real span fault: marks in the page table; a call for each span"},
    {"frontend", "labs|super", 0, 0, 1,
     "what a thread allocates from: its LAB; SuperMalloc's lists, which take from the LAB"},
};

}  // namespace

Settings settings;

std::span<Switch> switches() { return table; }

void apply_switches() {
  settings.madvise = static_cast<Madvise>(table[kMadvise].value);
  settings.one_stack = table[kSpanPool].value != 0;
  settings.reclaim = static_cast<Reclaim>(table[kReclaim].value);
  settings.lab = static_cast<LabModel>(table[kLab].value);
  settings.huge_pages = table[kThp].value != 0;
  settings.list_front = table[kFront].value != 0;
  settings.virtual_span = kMiB << table[kVirtual].value;
  // Guard markers in a page table prevent huge pages.
  settings.guard = settings.huge_pages ? Guard::off : static_cast<Guard>(table[kGuard].value);
  settings.asymmetric = register_membarrier();
  for (unsigned i = 1; i < kClasses; i++) {
    const auto blocks = static_cast<int32_t>(kSizeClasses[i].blocks);
    const auto threshold = static_cast<int32_t>(blocks * table[kReuseThreshold].value / 100);
    settings.reusable_at[i] = threshold + 1;
    settings.event_at[i] = threshold + 1 < blocks ? threshold + 1 : blocks;
  }
}

}  // namespace near::design::scalloc
