#include "workload.h"

#include <dlfcn.h>

#include <chrono>
#include <cinttypes>

#include "own_memory.h"

namespace workload {
namespace {

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace

double now() { return static_cast<double>(now_ns()) * 1e-9; }

char* Worker::timed_malloc(size_t size) {
  const uint64_t start = now_ns();
  void* const address = std::malloc(size);
  mallocs_.record(now_ns() - start);
  return allocated(address, size);
}

void Worker::timed_free(const Block& block) {
  const uint64_t start = now_ns();
  std::free(block.address);
  frees_.record(now_ns() - start);
}

Block Worker::resize(const Block& block, size_t size) {
  uint64_t before = 0, after = 0;
  const size_t kept = std::min({block.size, size, sizeof before});
  std::memcpy(&before, block.address, kept);
  read_ += read_stamp(block);
  const Block resized{allocated(std::realloc(block.address, size), size), size};
  std::memcpy(&after, resized.address, kept);
  read_ += after - before;  // nothing, if the contents came along
  ++operations_;
  written_ += write_stamp(resized, next_stamp_ += kStampStep);
  return resized;
}

Workload::Workload(const char* name, const char* description)
    : name_(name), options_(description, name) {
  options_.option_defaults()->always_capture_default();
  options_
      .add_option("--preset", preset_, "paper: the published parameters; two-cores: scaled down")
      ->check(CLI::IsMember({"paper", "two-cores"}));
}

CLI::Option* Workload::add(CLI::Option* option) {
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Workload::parse(int argc, char** argv) {
  try {
    options_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(options_.exit(error));
  }
  if (preset_ == "two-cores") {
    for (const auto& scale : scaled_) scale();
  }
}

void Workload::begin() {
  // The limit allocator recycles what is allocated from here on (lab/bench/limit.c).
  if (void* const hook = dlsym(RTLD_DEFAULT, "limit_begin")) {
    reinterpret_cast<void (*)()>(hook)();
  }
  started_ = now();
}

void Workload::join(const Worker& worker) {
  written_ += worker.written_;
  read_ += worker.read_;
  operations_ += worker.operations_;
  mallocs_.add(worker.mallocs_);
  frees_.add(worker.frees_);
}

int Workload::report(double seconds) {
  const struct memory_use memory = own_memory();
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "%016" PRIx64, written_);
  const bool verified = read_ == written_;
  nlohmann::ordered_json result = {{"name", name_},
                                   {"seconds", seconds < 0 ? seconds_ : seconds},
                                   {"operations", operations_},
                                   {"checksum", checksum},
                                   {"verified", verified},
                                   {"malloc_from", malloc_from()},
                                   {"vm_hwm_kib", memory.hwm_kib},
                                   {"vm_pte_kib", memory.pte_kib}};
  if (mallocs_.count() != 0) result["malloc_ns"] = to_json(mallocs_);
  if (frees_.count() != 0) result["free_ns"] = to_json(frees_);
  result.update(more_);
  std::printf("%s\n", result.dump().c_str());
  if (std::fflush(stdout) != 0) return 1;
  if (verified) return 0;
  std::fprintf(stderr, "%s: a block was not as it was left: blocks overlap\n", name_);
  return 3;
}

}  // namespace workload
