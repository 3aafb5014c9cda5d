#include "workload.h"

#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <functional>
#include <nlohmann/json.hpp>

#include "marking.h"
#include "own_memory.h"
#include "pinning.h"

namespace workload {
namespace {

// The median difference between two successive readings of the clock.
uint64_t clock_cost() {
  std::array<uint64_t, 1001> costs;
  for (uint64_t& cost : costs) {
    const uint64_t start = now_ns();
    cost = now_ns() - start;
  }
  std::nth_element(costs.begin(), costs.begin() + costs.size() / 2, costs.end());
  return costs[costs.size() / 2];
}

const uint64_t kClockCost = clock_cost();

}  // namespace

bool stamps_are_on = true;

// Callgrind counts between calls of these two (nearlab/measure/harness.py).
extern "C" {
__attribute__((noinline)) void workload_region_begins() { asm volatile(""); }
__attribute__((noinline)) void workload_region_ends() { asm volatile(""); }
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

uint64_t ns_since(uint64_t start) {
  const uint64_t elapsed = now_ns() - start;
  return elapsed > kClockCost ? elapsed - kClockCost : 0;
}

double now() { return static_cast<double>(now_ns()) * 1e-9; }

void settle(size_t index) {
  marking::exclude_thread();  // first, because the plugin counts accesses before it
  pinning::pin(index);
}

void move_on() { pinning::move_on(); }

char* Worker::timed_malloc(size_t size) {
  const uint64_t start = now_ns();
  void* const address = std::malloc(size);
  mallocs_.record(ns_since(start));
  return allocated(address, size);
}

void* Worker::timed_realloc(const Block& block, size_t size) {
  const uint64_t start = now_ns();
  void* const address = std::realloc(block.address, size);
  reallocs_.record(ns_since(start));
  return address;
}

void Worker::timed_free(const Block& block) {
  const uint64_t start = now_ns();
  std::free(block.address);
  frees_.record(ns_since(start));
  pinning::may_move(operations_);  // here, because it is rare
}

Block Worker::resize(const Block& block, size_t size) {
  if (!stamps_are_on) {
    read_ += block.size;
    written_ += size;
    ++operations_;
    return {allocated(std::realloc(block.address, size), size), size};
  }
  // A block that shrinks loses its tail's stamp; the head shows that realloc copied the contents.
  const size_t kept = size < block.size ? std::min(size, sizeof(uint64_t)) : block.size;
  const uint64_t before = read_stamp({block.address, kept});
  read_ += read_stamp(block);
  void* const address =
      is_sampled() ? timed_realloc(block, size) : std::realloc(block.address, size);
  const Block resized{allocated(address, size), size};
  read_ += read_stamp({resized.address, kept}) - before;  // 0 if it copied them
  ++operations_;
  written_ += write_stamp(resized, next_stamp(size));
  return resized;
}

namespace {

// The layout of what designs/shared/summary.h exports.
struct DesignCounter {
  const char* name;
  uint64_t value;
};
constexpr size_t kMostDesignCounters = 32;

// Adds the counters of the published design that serves this process, if one does.
void add_design_events(nlohmann::ordered_json& result) {
  void* const counters = dlsym(RTLD_DEFAULT, "near_design_counters");
  if (counters == nullptr) return;
  std::array<DesignCounter, kMostDesignCounters> found;
  const size_t count = reinterpret_cast<size_t (*)(DesignCounter*)>(counters)(found.data());
  for (size_t i = 0; i < count; ++i) {
    std::string key = std::string("design_") + found[i].name;
    std::replace(key.begin(), key.end(), ' ', '_');
    result[key] = found[i].value;
  }
}

}  // namespace

struct Workload::Words {
  explicit Words(const char* description, const char* name) : options(description, name) {}

  template <typename T>
  CLI::Option* add(const char* flag, T& value, const char* description) {
    return options.add_option(flag, value, description)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  CLI::Option* add(const char* flag, size_t& value, size_t two_cores, const char* description) {
    CLI::Option* const added = add(flag, value, description);
    scaled.push_back([added, &value, two_cores] {
      if (added->count() == 0) value = two_cores;
    });
    return added;
  }

  CLI::App options;
  std::string preset = "paper";
  std::string pin = "none";
  std::string stamps = "on";
  size_t seed = 0;
  size_t migrate = 0;
  bool mark = false;
  std::vector<std::function<void()>> scaled;
  std::vector<std::function<void()>> checks;
  nlohmann::ordered_json more = nlohmann::ordered_json::object();
};

namespace {

CLI::Validator at_least_one() {
  const auto fault = [](const std::string& text) {
    return text.find_first_not_of("0") == std::string::npos ? "must be at least 1" : "";
  };
  return CLI::Validator(fault, "AT LEAST 1");
}

}  // namespace

Workload::Workload(const char* name, const char* description)
    : name_(name), words_(std::make_unique<Words>(description, name)) {
  CLI::App& options = words_->options;
  options.option_defaults()->always_capture_default();
  options
      .add_option("--preset", words_->preset,
                  "paper: the published parameters; two-cores: scaled down")
      ->check(CLI::IsMember({"paper", "two-cores"}));
  option("--seed", words_->seed, "of the random numbers");
  choice("--pin", words_->pin, {"none", "spread", "compact"},
         "bind threads to CPUs: one node after the other, or a node's CPUs first");
  choice("--stamps", words_->stamps, {"on", "off"},
         "off: blocks are not stamped, calls not timed, to keep the harness small");
  option("--migrate", words_->migrate,
         "without --pin: a thread moves to the next node's CPU after so many operations");
  options.add_flag("--mark", words_->mark, "mark what is measured, for vm/plugin");
}

Workload::~Workload() = default;

void Workload::option(const char* flag, size_t& value, size_t two_cores, const char* description) {
  words_->add(flag, value, two_cores, description);
}
void Workload::option(const char* flag, size_t& value, const char* description) {
  words_->add(flag, value, description);
}
void Workload::option(const char* flag, double& value, const char* description) {
  words_->add(flag, value, description);
}
void Workload::option(const char* flag, std::string& value, const char* description) {
  words_->add(flag, value, description);
}

void Workload::bytes(const char* flag, size_t& value, const char* description) {
  words_->add(flag, value, description)->transform(CLI::AsSizeValue(true))->check(at_least_one());
}

void Workload::count(const char* flag, size_t& value, size_t two_cores, const char* description) {
  words_->add(flag, value, two_cores, description)->check(at_least_one());
}
void Workload::count(const char* flag, size_t& value, const char* description) {
  words_->add(flag, value, description)->check(at_least_one());
}

void Workload::sizes(size_t& low, size_t& high, const char* unit) {
  count("--low", low, (std::string("smallest size, ") + unit).c_str());
  count("--high", high, (std::string("largest size, ") + unit).c_str());
  words_->checks.push_back([this, &low, &high] { require(low <= high, "--low is above --high"); });
}

void Workload::choice(const char* flag, std::string& value, std::vector<std::string> words,
                      const char* description) {
  words_->add(flag, value, description)->check(CLI::IsMember(std::move(words)));
}

void Workload::parse(int argc, char** argv) {
  try {
    words_->options.parse(argc, argv);
  } catch (const CLI::Success& help) {
    std::exit(words_->options.exit(help));
  } catch (const CLI::ParseError& error) {
    require(false, error.what());
  }
  if (words_->preset == "two-cores") {
    for (const auto& scale : words_->scaled) scale();
  }
  for (const auto& check : words_->checks) check();
  Random::use_seed(words_->seed);
  stamps_are_on = words_->stamps == "on";
  require(words_->migrate == 0 || stamps_are_on, "--migrate needs stamps");
  require(words_->migrate == 0 || words_->pin == "none", "--migrate goes without --pin");
  pinning::use(words_->pin);
  pinning::migrate(words_->migrate);
  if (words_->mark) marking::enable();
}

void Workload::add(const char* key, const nlohmann::ordered_json& value) {
  words_->more[key] = value;
}
void Workload::add(const char* key, double value) { words_->more[key] = value; }
void Workload::add(const char* key, uint64_t value) { words_->more[key] = value; }
void Workload::add(const char* key, long value) { words_->more[key] = value; }

void Workload::require(bool condition, const char* message) const {
  if (condition) return;
  std::fprintf(stderr, "%s: %s\n", name_, message);
  std::exit(2);
}

namespace {

// Tells a simulated machine, if there is one, that the region begins or ends. Elsewhere it does not
// look for the function, because dlsym allocates when it fails.
void tell_machine(const char* function) {
  if (std::getenv("NEAR_MANYCORE_RUN") == nullptr) return;
  if (void* const found = dlsym(RTLD_DEFAULT, function)) reinterpret_cast<void (*)()>(found)();
}

}  // namespace

void Workload::begin(size_t threads) {
  // The limit allocator recycles blocks that are allocated from here on (lab/bench/limit.c).
  if (void* const hook = dlsym(RTLD_DEFAULT, "limit_begin")) {
    reinterpret_cast<void (*)(size_t)>(hook)(threads);
  }
  tell_machine("near_manycore_measure_begin");
  started_ = now();
  workload_region_begins();
  marking::begin();
}

void Workload::end() {
  marking::end();
  workload_region_ends();
  seconds_ = now() - started_;
  tell_machine("near_manycore_measure_end");
}

void Workload::join(const Worker& worker) {
  written_ += worker.written_;
  read_ += worker.read_;
  operations_ += worker.operations_;
  mallocs_.add(worker.mallocs_);
  reallocs_.add(worker.reallocs_);
  frees_.add(worker.frees_);
}

void Workload::add(const char* key, const Latencies& value) { words_->more[key] = to_json(value); }

void Workload::prove(uint64_t words, uint64_t operations, bool right, const char* complaint) {
  written_ += words;
  read_ += right ? words : words + 1;
  operations_ += operations;
  complaint_ = complaint;
}

int Workload::report() {
  const struct memory_use memory = own_memory();
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "%016" PRIx64, written_);
  const bool verified = read_ == written_;
  nlohmann::ordered_json result = {{"name", name_},
                                   {"seconds", seconds_},
                                   {"operations", operations_},
                                   {"checksum", checksum},
                                   {"verified", verified},
                                   {"malloc_from", malloc_from()},
                                   {"vm_hwm_kib", memory.hwm_kib},
                                   {"vm_pte_kib", memory.pte_kib}};
  result["clock_ns"] = kClockCost;  // already subtracted from each time below
  if (mallocs_.count() != 0) result["malloc_ns"] = to_json(mallocs_);
  if (reallocs_.count() != 0) result["realloc_ns"] = to_json(reallocs_);
  if (frees_.count() != 0) result["free_ns"] = to_json(frees_);
  if (words_->migrate != 0) result["moves"] = pinning::moves();
  add_design_events(result);
  result.update(words_->more);
  std::printf("%s\n", result.dump().c_str());
  if (std::fflush(stdout) != 0) return 1;
  if (verified) return 0;
  std::fprintf(stderr, "%s: %s\n", name_, complaint_);
  return 3;
}

}  // namespace workload
