// Fuzz target: the file of a recorded malloc trace, through the reader and the program that
// `replay` makes of it.
// Invariant: a file is refused by a TraceError that names it, or every event and sum is what
// trace_reference.h reads, and the threads of the program never wait for each other in a circle.
// Thread-safety: libFuzzer's thread.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz/harness.h"
#include "fuzz/trace_reference.h"
#include "replay_program.h"

namespace near_test::fuzz {
namespace {

using workload::Operation;
using workload::ReplayProgram;
using workload::TraceError;
using workload::TraceEvent;
using workload::TraceReader;
using workload::TraceSummary;

constexpr uint32_t kNone = UINT32_MAX;

// A file in memory with a path.
class File {
 public:
  File() : descriptor_(memfd_create("trace", MFD_CLOEXEC)) {
    demand(descriptor_ >= 0, "no file in memory");
    path_ = "/proc/self/fd/" + std::to_string(descriptor_);
  }

  const std::string& write(const uint8_t* data, size_t size) {
    const bool written = ftruncate(descriptor_, 0) == 0 &&
                         pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size);
    demand(written, "cannot write %zu bytes", size);
    return path_;
  }

 private:
  int descriptor_;
  std::string path_;
};

// The message that `work` throws, which must be a clear TraceError; empty if it throws none.
template <typename Work>
std::string refusal_of(const std::string& path, Work work) {
  try {
    work();
    return "";
  } catch (const TraceError& error) {
    const std::string what = error.what();
    note("%s", what.c_str());
    demand(what.starts_with(path + ": ") && what.size() > path.size() + 10 && what.size() < 300,
           "an unclear refusal: %s", what.c_str());
    return what;
  }
}

void expect_event(const TraceEvent& event, const ReferenceEvent& expected, size_t number) {
  const bool same = event.kind == expected.kind && event.thread == expected.thread &&
                    event.ns == expected.ns && event.address == expected.address &&
                    event.size == expected.size && event.alignment == expected.alignment;
  demand(same, "event %zu is another one", number);
}

void expect_reader(const std::string& path, const std::optional<ReferenceTrace>& expected) {
  size_t number = 0;
  const std::string refusal = refusal_of(path, [&] {
    TraceReader reader(path);
    TraceEvent event;
    for (; reader.next(event); number++) {
      if (has_fault("size") && event.size == 300) event.size++;
      if (expected.has_value()) expect_event(event, expected->events.at(number), number);
    }
    demand(expected.has_value(), "a file that is no trace is read");
    demand(number == expected->events.size(), "%zu events, not %zu", number,
           expected->events.size());
    demand(reader.has_ended() == expected->has_ended, "whether the process ended");
    demand(reader.process() == expected->process, "the process is %u", reader.process());
  });
  demand(refusal.empty() == expected.has_value(), "a trace is refused: %s", refusal.c_str());
}

void expect_equal(const char* what, uint64_t value, uint64_t expected) {
  demand(value == expected, "%s: %llu, not %llu", what, static_cast<unsigned long long>(value),
         static_cast<unsigned long long>(expected));
}

void expect_summary(const TraceSummary& summary, const ReferenceTrace& trace,
                    const ReferenceSums& sums) {
  expect_equal("events", summary.events, trace.events.size());
  expect_equal("threads", summary.threads, sums.threads);
  expect_equal("bytes", summary.bytes, sums.bytes);
  expect_equal("live bytes", summary.live_bytes_at_end, sums.live_bytes);
  expect_equal("peak of live bytes", summary.peak_live_bytes, sums.peak_live_bytes);
  expect_equal("live objects", summary.live_objects_at_end, sums.live_objects);
  expect_equal("peak of live objects", summary.peak_live_objects, sums.peak_live_objects);
  expect_equal("remote frees", summary.remote_frees, sums.remote_frees);
  const uint64_t unknown = has_fault("unknown") ? 0 : summary.unknown_frees;
  expect_equal("unknown frees", unknown, sums.unknown_frees);
  for (unsigned kind = 0; kind < kTraceEnd; kind++)
    expect_equal("calls of a kind", summary.events_by_kind[kind], sums.events_by_kind[kind]);
  uint64_t sizes = 0;
  for (const uint64_t count : summary.sizes) sizes += count;
  expect_equal("allocations by size", sizes, sums.objects);
}

// Runs the threads in turn, each until it waits for a block that is not made yet.
class Threads {
 public:
  explicit Threads(const ReplayProgram& program)
      : program_(program),
        next_(program.threads(), 0),
        made_(program.objects(), false),
        ended_(program.objects(), false) {}

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t thread = 0; thread < next_.size(); thread++) moved |= advance(thread);
    }
    for (size_t thread = 0; thread < next_.size(); thread++)
      demand(current(thread) == nullptr, "thread %zu waits for ever", thread);
    for (size_t object = 0; object < made_.size(); object++)
      demand(made_[object], "object %zu is never made", object);
  }

 private:
  const Operation* current(size_t thread) const {
    const auto& operations = program_.of_thread(thread);
    if (next_[thread] == operations.size()) return nullptr;
    const Operation& operation = operations[next_[thread]];
    return operation.kind == kTraceNothing ? nullptr : &operation;
  }

  bool advance(size_t thread) {
    bool moved = false;
    for (const Operation* operation = current(thread); operation != nullptr && do_one(*operation);
         operation = current(thread)) {
      next_[thread]++;
      moved = true;
    }
    return moved;
  }

  // False if the block that it ends is not made yet.
  bool do_one(const Operation& operation) {
    const bool frees = operation.kind == kTraceFree;
    const uint32_t ends = frees ? operation.object : operation.ended;
    demand(operation.object < made_.size(), "object %u is none", operation.object);
    if (ends != kNone) {
      demand(ends < made_.size(), "object %u is none", ends);
      if (!made_[ends]) return false;
      demand(!ended_[ends], "object %u ends twice", ends);
      ended_[ends] = true;
    }
    if (frees) return true;
    demand(!made_[operation.object], "object %u is made twice", operation.object);
    made_[operation.object] = true;
    return true;
  }

  const ReplayProgram& program_;
  std::vector<size_t> next_;
  std::vector<bool> made_, ended_;
};

void expect_program(const std::string& path, const std::optional<ReferenceTrace>& trace) {
  std::optional<ReferenceSums> sums;
  if (trace.has_value()) sums = replay_reference(*trace);
  const std::string refusal = refusal_of(path, [&] {
    const ReplayProgram program(path);
    demand(sums.has_value(), "a program that cannot be is taken");
    expect_summary(program.summary(), *trace, *sums);
    demand(program.objects() == sums->objects, "%zu objects", program.objects());
    Threads(program).run();
  });
  demand(refusal.empty() == sums.has_value(), "a program is refused: %s", refusal.c_str());
}

// Mappings that inputs leave behind are noticed once there are many.
void expect_few_mappings() {
  constexpr size_t kOften = 1000;
  constexpr size_t kMany = 1500;  // a sanitizer has a few hundred
  static size_t inputs = 0;
  if (++inputs % kOften != 0) return;
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) lines++;
  demand(lines < kMany, "%zu mappings are left", lines);
}

void play(const uint8_t* data, size_t size) {
  static File file;
  expect_few_mappings();
  const std::string& path = file.write(data, size);
  const std::optional<ReferenceTrace> trace = read_reference(data, size);
  expect_reader(path, trace);
  expect_program(path, trace);
}

}  // namespace
}  // namespace near_test::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  near_test::fuzz::count_input();
  near_test::fuzz::play(data, size);
  return 0;
}
