// Tells the counting plugin (vm/plugin) which memory belongs to which node: shows it pages that
// the kernel says lie there; and on each processor, which one it is, of which node.
//
// Runs in a guest, first. It takes most of each node's free memory, so that what is shown lies all
// over the node; that is given back when it ends. Prints one JSON object; status 1 if a page that
// was bound to a node lies on another.
#include <algorithm>

#include "../../lab/workloads/marker.h"
#include "bound_pages.h"

namespace {

using namespace numa_guest;
namespace marker = workload::marker;

constexpr size_t kShownEvery = size_t{256} << 10;  // of huge pages
// Left free on each node: the kernel keeps most of the lowest 16 MiB, and kills what takes it.
constexpr size_t kLeft = size_t{24} << 20;

struct Shown {
  size_t pages = 0;
  size_t elsewhere = 0;
};

size_t free_bytes(unsigned node) {
  std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
  for (std::string word; file >> word;) {
    size_t kib = 0;
    if (word == "MemFree:" && file >> kib) return kib << 10;
  }
  return 0;
}

size_t usable_bytes(unsigned node) {
  const size_t bytes = free_bytes(node);
  return bytes - std::min(kLeft, bytes / 2);
}

void show(unsigned node, size_t bytes, bool huge, Shown& shown) {
  const size_t step = huge ? kShownEvery : kPage;
  if (bytes == 0) return;
  char* const memory = map_on(node, bytes, huge);
  std::vector<void*> pages;
  for (size_t at = 0; at < bytes; at += step) {
    memory[at] = 1;
    pages.push_back(memory + at);
  }
  shown.elsewhere += pages_elsewhere(pages, node);
  shown.pages += pages.size();
  if (shown.elsewhere != 0) return;
  for (void* const page : pages) marker::calibrate(page, node);
}

Shown show_node(unsigned node) {
  Shown shown;
  // Huge pages are quick; the small pages come from the gaps between them.
  show(node, usable_bytes(node) / 8 * 7 / kHugePage * kHugePage, true, shown);
  show(node, usable_bytes(node) / kPage * kPage, false, shown);
  return shown;
}

}  // namespace

int main() {
  const std::vector<unsigned> cpus = cpus_online();
  for (const unsigned cpu : cpus) {
    pin_to(cpu);
    const Place place = here();
    marker::here(place.cpu, place.node);
  }
  size_t pages = 0, elsewhere = 0, least = SIZE_MAX;
  const std::vector<unsigned> nodes = nodes_with_memory();
  for (const unsigned node : nodes) {
    const Shown shown = show_node(node);
    pages += shown.pages;
    elsewhere += shown.elsewhere;
    least = std::min(least, shown.pages);
  }
  std::printf(
      "{\"name\": \"calibrate\", \"cpus\": %zu, \"nodes\": %zu, \"pages\": %zu, "
      "\"fewest_pages\": %zu, \"elsewhere\": %zu}\n",
      cpus.size(), nodes.size(), pages, nodes.empty() ? 0 : least, elsewhere);
  return elsewhere == 0 && !nodes.empty() ? 0 : 1;
}
