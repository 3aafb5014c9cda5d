// The explanation in sentences, and the option that asks for it.
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "front/signal_retry.h"
#include "front/thread.h"
#include "inspect/explain.h"
#include "inspect/out.h"
#include "nearmalloc/nearmalloc.h"
#include "node/events.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/clock.h"
#include "platform/options.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

unsigned long kib(uint64_t bytes) { return (bytes + kKiB / 2) / kKiB; }

struct Sentence {
  Part part;
  const char* text;
};

constexpr Sentence kSentences[] = {
    {Part::small_blocks, "are live blocks of size classes."},
    {Part::large_blocks, "are live large blocks, which have spans of their own."},
    {Part::free_blocks, "are free blocks in spans that also have live ones, or are in use."},
    {Part::unused,
     "lie in spans and hold no block now; huge pages, or earlier use of the slices, made them "
     "resident."},
    {Part::span_ends, "lie behind the last block of a span."},
    {Part::large_ends, "lie behind the bytes that large blocks were asked for."},
    {Part::magazines, "are freed blocks in magazines and depots, for any thread of their node."},
    {Part::cached, "are empty spans that heaps keep for their next use."},
    {Part::dirty, "are free slices that have not been given back yet."},
    {Part::clean, "are free slices that are not dirty."},
    {Part::structures,
     "are the allocator's heaps, magazines, depots and shards, and the profiler's tables."},
    {Part::descriptors, "are its descriptors of slices."},
    {Part::tables, "are its tables of chunks."},
    {Part::library, "are the file that contains the allocator, and its variables."},
    {Part::files, "are other files: the program, its libraries, and what it maps."},
    {Part::stack, "are the stack of the main thread."},
    {Part::brk, "are the heap of brk(2), which the allocator does not use."},
    {Part::shared, "are shared memory."},
    {Part::others, "are other anonymous memory: stacks of threads, variables, arenas, JIT code."},
};
static_assert(sizeof kSentences / sizeof kSentences[0] == kParts);

void put_dirty(Out& out, const Explanation& found) {
  if (found.of(Part::dirty) == 0) return;
  out.put("The dirty slices of a chunk leave when none was freed in it for %ld ms (decay_ms), by ",
          option(Option::decay_ms));
  out.put(purge_signal.present() ? "the purge thread" : "slow paths of malloc and free");
  out.put("; no chunk has waited for more than %lu ms.\n",
          static_cast<unsigned long>(found.longest_wait_ms));
  if (const long kept = option(Option::populate_mib)) {
    out.put("Up to %ld MiB of each node stay free and resident (populate_mib).\n", kept);
  }
}

void put_classes(Out& out, const Explanation& found) {
  out.put("Resident KiB of spans by size class (live blocks include those in magazines):\n");
  out.put("%10s %10s %10s %10s\n", "size", "live", "free", "no block");
  for (unsigned c = 0; c < kClasses; c++) {
    const Explanation::OfClass& sums = found.classes[c];
    if (sums.live + sums.free + sums.unused == 0) continue;
    out.put("%10u %10lu %10lu %10lu\n", kSizeClasses[c].size, kib(sums.live), kib(sums.free),
            kib(sums.unused));
  }
}

void put_event(Out& out, const Event& event, uint64_t tenths_ago) {
  const unsigned node = topology.kernel_id[event.node];
  const char* more = event.bytes == kMostEventBytes ? " or more" : "";
  out.put("%8lu.%lu s ago: ", static_cast<unsigned long>(tenths_ago / 10),
          static_cast<unsigned long>(tenths_ago % 10));
  switch (event.kind) {
    case EventKind::none:
      return;
    case EventKind::spill:
      return out.put("node %u served what node %u could not.\n",
                     unsigned{topology.kernel_id[event.other]}, node);
    case EventKind::growth:
      return out.put("node %u grew by %lu KiB%s.\n", node, kib(event.bytes), more);
    case EventKind::purge:
      return out.put("node %u gave %lu KiB%s back.\n", node, kib(event.bytes), more);
    case EventKind::bind_refused:
      return out.put("the kernel refused to bind %lu KiB%s to node %u.\n", kib(event.bytes), more,
                     node);
    case EventKind::error:
      return out.put("an invalid or double free, or a damaged free list, was detected.\n");
  }
}

void put_recent_events(Out& out) {
  constexpr unsigned kShown = 16;
  if (recent_event(0).kind == EventKind::none) return;
  out.put("Rare events, the newest first:\n");
  const uint64_t now = coarse_now_ms() / 100;
  for (unsigned back = 0; back < kShown; back++) {
    const Event event = recent_event(back);
    if (event.kind != EventKind::none) put_event(out, event, now - min_of(now, event.tenths));
  }
}

void put_everything(Out& out, const Explanation& found) {
  out.put("nearmalloc %s: why %lu KiB are resident in process %d\n", near_version(),
          kib(found.kernel), getpid());
  for (const Sentence& each : kSentences) {
    if (found.of(each.part) == 0) continue;
    out.put("%10lu KiB %s\n", kib(found.of(each.part)), each.text);
  }
  out.put("%10lu KiB is their sum; the kernel counts %lu KiB.\n", kib(found.sum()),
          kib(found.kernel));
  put_dirty(out, found);
  put_classes(out, found);
  put_recent_events(out);
  out.put("Page tables take %lu KiB more, which no process's resident size contains.\n",
          kib(found.page_tables));
  const auto spills = static_cast<unsigned long>(spill_count());
  if (topology.count > 1) out.put("Other nodes served %lu requests of a node (spills).\n", spills);
}

// --- the option ---

constinit SignalRetry retry;

void explain_to_stderr() {
  if (is_inside()) return message("nothing is explained: the thread is inside the allocator");
  if (!write_explanation(nullptr)) message("nothing is explained: /proc cannot be read");
}

void on_signal(int) {
  const SavedErrno saved;
  if (is_inside()) {
    if (!retry.soon(SIGUSR2)) message("nothing is explained: the system refuses a timer");
    return;
  }
  explain_to_stderr();
}

void explain_at_signal() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  if (!retry.make(SIGUSR2) || sigaction(SIGUSR2, &action, nullptr) != 0) {
    message("NEARMALLOC_EXPLAIN is ignored: the system refuses a timer or a handler");
  }
}

__attribute__((constructor)) void obey_explain_option(int, char**, char** environment) {
  read_options(environment);
  switch (static_cast<Explain>(option(Option::explain))) {
    case Explain::off:
      return;
    case Explain::exit:
      keep_stderr();
      atexit(explain_to_stderr);
      return;
    case Explain::signal:
      return explain_at_signal();
  }
}

}  // namespace

bool write_explanation(FILE* stream) {
  Explanation found;
  if (!measure_everything(found)) return false;
  Out out(stream);
  put_everything(out, found);
  return true;
}

}  // namespace near
