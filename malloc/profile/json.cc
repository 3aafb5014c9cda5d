// Writes everything that is known as one JSON object, for `./near profile` and for programs.
#include <unistd.h>

#include "profile/modules.h"
#include "profile/own.h"
#include "profile/profiler.h"
#include "profile/write.h"

namespace near::profile {
namespace {

unsigned long number(uint64_t value) { return static_cast<unsigned long>(value); }

void put_string(Sink& out, const char* words) {
  out.text("\"");
  for (; *words != '\0'; words++) {
    const auto letter = static_cast<unsigned char>(*words);
    if (letter == '"' || letter == '\\' || letter < 0x20) {
      out.put("\\u%04x", unsigned{letter});
    } else {
      out.write(words, 1);
    }
  }
  out.text("\"");
}

// A member of an object, and a comma. `format` is that of one double.
void put_real(Sink& out, const char* name, const char* format, double value) {
  out.put("\"%s\": ", name);
  out.real(format, value);
  out.text(", ");
}

void put_summary(Sink& out, const Summary& found) {
  out.put("{\"version\": 1, \"pid\": %d, \"mean\": %lu, \"started\": %lu, ", getpid(),
          number(found.mean), number(found.started_at));
  put_real(out, "seconds", "%.3f", static_cast<double>(found.stopped_ms - found.started_ms) / 1000);
  out.put("\n \"running\": %s, \"samples\": %lu, \"live_samples\": %u, \"own_bytes\": %lu,\n",
          found.running ? "true" : "false", number(found.samples), found.live_samples,
          number(found.own_bytes));
  out.put(" \"slice_bytes\": %lu, \"dropped_stacks\": %lu, \"dropped_blocks\": %lu,\n",
          number(found.slice_bytes), number(found.dropped_stacks), number(found.dropped_blocks));
}

void put_modules(Sink& out) {
  const Modules modules;
  out.text(" \"modules\": [");
  for (size_t i = 0; i < modules.count(); i++) {
    char build_id[41];
    Modules::print_build_id(modules[i], build_id);
    out.put("%s\n  {\"start\": %lu, \"end\": %lu, \"offset\": %lu, \"build_id\": \"%s\", ",
            i == 0 ? "" : ",", number(modules[i].start), number(modules[i].end),
            number(modules[i].offset), build_id);
    out.text("\"file\": ");
    put_string(out, modules[i].name);
    out.text("}");
  }
  out.put("],\n \"dropped_modules\": %lu,\n", number(modules.dropped()));
}

void put_weight(Sink& out, const char* name, const Weight& weight) {
  out.put("\"%s\": {", name);
  put_real(out, "blocks", "%.6f", static_cast<double>(weight.blocks) / kBlockUnit);
  out.put("\"bytes\": %lu}, ", number(weight.bytes));
}

// The values, and the last one, which no site stores.
template <size_t kCount>
void put_list(Sink& out, const char* name, const uint64_t (&values)[kCount], uint64_t last,
              double unit) {
  out.put("\"%s\": [", name);
  for (const uint64_t value : values) {
    out.real("%.3f", static_cast<double>(value) / unit);
    out.text(", ");
  }
  out.real("%.3f", static_cast<double>(last) / unit);
  out.text("]");
}

void put_freeing_heaps(Sink& out, const Site& site) {
  out.text(", \"freed_by_heap\": [");
  for (unsigned i = 0; i < kSiteHeaps && site.freed_by_heap[i] > 0; i++) {
    const long heap = site.heaps[i] == kNoHeap ? -1 : static_cast<long>(site.heaps[i]);
    out.put("%s[%ld, %lu]", i == 0 ? "" : ", ", heap, number(site.freed_by_heap[i]));
  }
  out.put("], \"freed_by_others\": %lu", number(site.freed_by_others()));
}

void put_site(Sink& out, const SiteCopy& copy, uint32_t index, bool first) {
  const Site& site = copy.site;
  out.put("%s\n  {\"number\": %u, \"samples\": %lu, ", first ? "" : ",", index,
          number(site.samples));
  put_weight(out, "allocated", site.allocated);
  put_weight(out, "live", site.live);
  put_weight(out, "peak", site.peak);
  put_weight(out, "freed", site.freed);
  put_weight(out, "remote", site.remote);
  put_weight(out, "moved", site.moved);
  out.put("\"moved_distance\": %lu, ", number(site.moved_distance));
  put_real(out, "variance", "%.6g", site.variance);
  put_real(out, "live_variance", "%.6g", site.live_variance);
  out.put("\"waste\": %lu, \"live_waste\": %lu,\n   ", number(site.waste), number(site.live_waste));
  put_real(out, "lifetimes", "%.9g", site.lifetimes);
  put_real(out, "remote_lifetimes", "%.9g", site.remote_lifetimes);
  put_real(out, "longest", "%.9g", site.longest);
  put_list(out, "by_lifetime", site.by_lifetime, site.lived_longest(), kBlockUnit);
  out.text(", ");
  put_list(out, "freed_on_node", site.freed_on_node, site.freed_on_last_nodes(), 1);
  put_freeing_heaps(out, site);
  out.text(",\n   \"frames\": [");
  for (unsigned i = 0; i < site.depth; i++) {
    out.put("%s%lu", i == 0 ? "" : ", ", number(copy.frames[i] - 1));
  }
  out.text("]}");
}

// The sampled blocks that are live, for tools that ask of each what it is.
void put_blocks(Sink& out) {
  out.text(" \"blocks\": [");
  SampleCopy copy;
  const Sample& sample = copy.sample;
  const Weight& weight = copy.estimate.weight;
  bool first = true;
  for (uint32_t i = 0; i < Table::kSamples; i++) {
    if (!copy_sample(i, copy)) continue;
    out.put("%s\n  {\"address\": %lu, \"size\": %lu, \"site\": %u, ", first ? "" : ",",
            number(sample.address), number(sample.size), static_cast<unsigned>(sample.site));
    put_real(out, "blocks", "%.6f", static_cast<double>(weight.blocks) / kBlockUnit);
    out.put("\"bytes\": %lu, \"variance\": ", number(weight.bytes));
    out.real("%.6g", copy.estimate.variance);
    out.text("}");
    first = false;
  }
  out.text("],\n");
}

// The addresses that are the allocator's: what it notes of a block does not keep the block.
void put_own_ranges(Sink& out) {
  struct Told {
    Sink& out;
    bool first = true;
  } told{out};
  out.text(" \"own\": [");
  visit_own_ranges(
      [](uintptr_t start, uintptr_t end, void* data) {
        auto& [to, first] = *static_cast<Told*>(data);
        to.put("%s[%lu, %lu]", first ? "" : ", ", number(start), number(end));
        first = false;
      },
      &told);
  out.text("],\n");
}

}  // namespace

void write_json(Sink& out) {
  put_summary(out, summary());
  put_modules(out);
  put_own_ranges(out);
  put_blocks(out);
  out.text(" \"sites\": [");
  SiteCopy copy;
  bool first = true;
  for (uint32_t i = 0; copy_site(i, copy); i++) {
    if (copy.site.samples == 0) continue;
    put_site(out, copy, i, first);
    first = false;
  }
  out.text("]}\n");
}

}  // namespace near::profile
