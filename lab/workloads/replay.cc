// Runs the allocations of a recorded program again, on any allocator: the same threads, each in its
// own order, as often as --rounds says.
//
// A thread that frees or resizes a block of another thread waits until the block exists; otherwise
// threads run as fast as they can (--timed 1 keeps the recorded times, --timed 0.1 a tenth of
// them). All threads live from the start to the end. Blocks are stamped, not filled; blocks that
// the program never freed are checked at the end of a round, and freed if another one follows.
// Invariant: object n has stamp n + 1 times an odd number, so the checksum depends only on the
// trace. Thread-safety of an object: the thread that makes it, until that stores `address`; then
// the thread that ends it. Source: `./near lab record`; the format is in lab/bench/trace_format.h.
#include <atomic>
#include <bit>
#include <chrono>
#include <cinttypes>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "replay_program.h"
#include "workload.h"

namespace {

using workload::Block;
using workload::Operation;

constexpr uint64_t kStampStep = 0x9e3779b97f4a7c15;
constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kSampledOneIn = 61;

struct Object {
  std::atomic<char*> address;
  size_t size;
};

class alignas(128) Player {
 public:
  Player(workload::Table<Object>& objects, double timed) : objects_(objects), timed_(timed) {}

  void play(const workload::Table<Operation>& operations) {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      // The rest of the table is empty, because some events were left out.
      if (operation.kind == kTraceNothing) break;
      if (timed_ > 0) {
        const double ns = static_cast<double>(operation.ns) * timed_;
        std::this_thread::sleep_until(start + std::chrono::nanoseconds(static_cast<int64_t>(ns)));
      }
      run(operation);
    }
  }

  uint64_t written = 0, read = 0, frees = 0;
  workload::Latencies malloc_ns, free_ns;

 private:
  void run(const Operation& operation) {
    switch (operation.kind) {
      case kTraceFree: {
        const Block block = await(operation.object);
        read += workload::read_stamp(block);
        timed(free_ns, [&] { return std::free(block.address), nullptr; });
        ++frees;
        break;
      }
      case kTraceResized:
        resize(operation);
        break;
      default:
        made(operation, timed(malloc_ns, [&] { return allocate(operation); }));
    }
  }

  static void* allocate(const Operation& operation) {
    if (operation.kind == kTraceCalloc) return std::calloc(1, operation.size);
    if (operation.kind != kTraceAligned) return std::malloc(operation.size);
    void* block = nullptr;
    const size_t alignment = std::max(sizeof block, size_t{1} << operation.alignment_bits);
    return posix_memalign(&block, alignment, operation.size) == 0 ? block : nullptr;
  }

  // Checks that realloc copied the block's first bytes. A block that is older than the recording is
  // made here.
  void resize(const Operation& operation) {
    if (operation.ended == kNone) return made(operation, std::malloc(operation.size));
    const Block old = await(operation.ended);
    uint64_t before = 0, after = 0;
    const size_t kept = std::min({old.size, size_t{operation.size}, sizeof before});
    std::memcpy(&before, old.address, kept);
    read += workload::read_stamp(old);
    const Block block{
        workload::allocated(std::realloc(old.address, operation.size), operation.size),
        operation.size};
    std::memcpy(&after, block.address, kept);
    read += after - before;
    ++frees;
    made(operation, block.address);
  }

  void made(const Operation& operation, void* address) {
    Object& object = objects_[operation.object];
    const Block block{workload::allocated(address, operation.size), operation.size};
    written += workload::write_stamp(block, (operation.object + 1) * kStampStep);
    object.size = block.size;
    object.address.store(block.address, std::memory_order_release);
  }

  Block await(uint32_t number) {
    Object& object = objects_[number];
    char* address;
    while ((address = object.address.load(std::memory_order_acquire)) == nullptr)
      std::this_thread::yield();
    object.address.store(nullptr, std::memory_order_relaxed);
    return {address, object.size};
  }

  template <typename Call>
  void* timed(workload::Latencies& latencies, Call call) {
    if (--until_sample_ != 0) return call();
    until_sample_ = kSampledOneIn;
    const uint64_t start = workload::now_ns();
    void* const address = call();
    latencies.record(workload::ns_since(start));
    return address;
  }

  workload::Table<Object>& objects_;
  double timed_;
  uint32_t until_sample_ = kSampledOneIn;
};

uint64_t read_what_is_left(workload::Table<Object>& objects, bool release) {
  uint64_t read = 0;
  for (Object& object : objects) {
    char* const address = object.address.load(std::memory_order_relaxed);
    if (address == nullptr) continue;
    read += workload::read_stamp({address, object.size});
    if (!release) continue;
    std::free(address);
    object.address.store(nullptr, std::memory_order_relaxed);
  }
  return read;
}

void print(const workload::TraceSummary& summary) {
  static constexpr const char* kNames[] = {"",     "malloc",  "calloc", "aligned",
                                           "free", "realloc", ""};
  nlohmann::ordered_json kinds, sizes = nlohmann::json::array();
  for (size_t kind = kTraceMalloc; kind < kTraceResized; ++kind)
    kinds[kNames[kind]] = summary.events_by_kind[kind];
  for (size_t bits = 0; bits < summary.sizes.size(); ++bits) {
    const uint64_t least = bits == 0 ? 0 : uint64_t{1} << (bits - 1);
    if (summary.sizes[bits] != 0) sizes.push_back({least, summary.sizes[bits]});
  }
  const nlohmann::ordered_json all = {{"process", summary.process},
                                      {"events", summary.events},
                                      {"threads", summary.threads},
                                      {"seconds", summary.seconds},
                                      {"ended", summary.has_ended},
                                      {"calls", kinds},
                                      {"bytes", summary.bytes},
                                      {"peak_live_bytes", summary.peak_live_bytes},
                                      {"peak_live_objects", summary.peak_live_objects},
                                      {"live_bytes_at_end", summary.live_bytes_at_end},
                                      {"live_objects_at_end", summary.live_objects_at_end},
                                      {"remote_frees", summary.remote_frees},
                                      {"unknown_frees", summary.unknown_frees},
                                      {"sizes", sizes}};
  std::printf("%s\n", all.dump().c_str());
}

// The file of a trace: a name without a slash is that of one of the lab's, which are beside the
// folder of this program, if it is one of these.
std::string trace_file(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto file = program.parent_path().parent_path() / "traces" / name;
  const bool is_name = name.find('/') == std::string::npos;
  return is_name && std::filesystem::exists(file) ? file.string() : name;
}

int replay(workload::Workload& workload, const workload::ReplayProgram& program, double timed,
           size_t rounds) {
  workload::Table<Object> objects(program.objects());
  std::vector<Player> players;
  for (size_t i = 0; i < program.threads(); ++i) players.emplace_back(objects, timed);
  workload::Meeting all(program.threads());
  uint64_t written = 0, read = 0, frees = 0;
  workload.run(program.threads(), [&](workload::Worker&, size_t thread) {
    for (size_t round = 0; round < rounds; ++round) {
      players[thread].play(program.of_thread(thread));
      if (round + 1 < rounds) {
        all.arrive_and_wait([&] { read += read_what_is_left(objects, true); });
      }
    }
  });
  read += read_what_is_left(objects, false);
  workload::Latencies mallocs, releases;
  for (const Player& player : players) {
    written += player.written;
    read += player.read;
    frees += player.frees;
    mallocs.add(player.malloc_ns);
    releases.add(player.free_ns);
  }
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "%016" PRIx64, written);
  workload.add("operations", frees);
  workload.add("checksum", nlohmann::ordered_json(checksum));
  workload.add("verified", nlohmann::ordered_json(read == written));
  workload.add("malloc_ns", to_json(mallocs));
  workload.add("free_ns", to_json(releases));
  workload.add("trace_threads", uint64_t{program.summary().threads});
  workload.add("trace_peak_live_kib", program.summary().peak_live_bytes / 1024);
  const int status = workload.report();
  if (status != 0 || read == written) return status;
  std::fprintf(stderr, "replay: a block was not as it was left: blocks overlap\n");
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  std::string file;
  double timed = 0;
  size_t info = 0, rounds = 1;
  workload::Workload workload("replay", "runs the allocations of a recorded program again");
  workload.option("--file", file, "the trace; a name: one of lab/traces, if it is there");
  workload.option("--timed", timed, "times this much of the recorded ones; 0: no pauses");
  workload.option("--rounds", rounds, "how often it runs the trace");
  workload.option("--info", info, "1: prints what the trace holds and runs nothing");
  workload.parse(argc, argv);
  workload.require(!file.empty(), "--file is required");
  workload.require(rounds > 0, "--rounds is at least 1");
  try {
    const workload::ReplayProgram program(trace_file(file));
    if (program.threads() == 0) throw workload::TraceError(file + ": has no events");
    if (info == 0) return replay(workload, program, timed, rounds);
    print(program.summary());
    return 0;
  } catch (const workload::TraceError& error) {
    workload.require(false, error.what());
  }
}
