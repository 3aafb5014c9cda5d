// The driver: programs of threads, forks and refused memory, by seeds.
//
//   fuzz_driver [--seed N | --seeds FIRST-LAST] [--seconds N] [--no-forks] [--fault NAME]
//
// Each seed draws a world and plays in a process of its own, which is this program started again.
// With --seconds seeds go on from the first one until the time is over. A fault is reported as
// "seed N: what", with the command that plays it again. The last line is "cases: operations".
// Exit status: 0, 1 for a fault, 2 for wrong use.
// Thread-safety: the main thread.
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/driver/play.h"

namespace near_test::driver {
namespace {

constexpr unsigned kSecondsOfSeed = 300;
constexpr int kReport = 3;  // the descriptor to which a process writes its operations

struct Arguments {
  uint64_t first = 1;
  uint64_t last = 1;
  uint64_t seconds = 0;
  bool forks = true;
  bool plays = false;  // the seed, here
  std::string_view fault;
};

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr,
               "fuzz_driver: %s\nusage: fuzz_driver [--seed N | --seeds FIRST-LAST] [--seconds N] "
               "[--no-forks] [--fault overlap|dirty|realloc|leak]\n",
               what);
  std::exit(2);
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) misuse("a number was expected");
  return value;
}

void read_seeds(std::string_view text, Arguments& arguments) {
  const size_t dash = text.find('-');
  arguments.first = number(text.substr(0, dash));
  arguments.last = dash == std::string_view::npos ? arguments.first : number(text.substr(dash + 1));
  if (arguments.first > arguments.last) misuse("no seed");
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i++) {
    const std::string_view name = argv[i];
    if (name == "--no-forks") {
      arguments.forks = false;
      continue;
    }
    if (name == "--play") {
      arguments.plays = true;
      continue;
    }
    if (i + 1 == argc) misuse("an option without its value, or none at all");
    const std::string_view value = argv[++i];
    if (name == "--seed" || name == "--seeds") {
      read_seeds(value, arguments);
    } else if (name == "--seconds") {
      arguments.seconds = number(value);
    } else if (name == "--fault") {
      arguments.fault = value;
    } else {
      misuse("an unknown option");
    }
  }
  return arguments;
}

// The environment that makes the world of a seed.
std::vector<std::string> world_of(uint64_t seed) {
  static constexpr const char* kUneven =
      "nodes=4 cpus=0-3,4-7,8-11,12-15 "
      "distance=10,16,32,33,16,10,25,32,32,25,10,16,33,32,16,10";
  static constexpr const char* kTopologies[] = {"nodes=1", "nodes=2 cpus=0-7,8-15",
                                                "nodes=3 cpus=0-7,,8-15", kUneven};
  static constexpr const char* kRegions[] = {"0", "4", "64"};
  static constexpr const char* kDecays[] = {"0", "20", "1000"};
  static constexpr const char* kPages[] = {"4096", "4096", "65536"};
  Random random(seed + 1);
  const auto draw = [&](const auto& values) {
    return std::string(values[random.below(std::size(values))]);
  };
  return {"NEARMALLOC_TOPOLOGY=" + draw(kTopologies), "NEARMALLOC_REGION_MIB=" + draw(kRegions),
          "NEARMALLOC_DECAY_MS=" + draw(kDecays),
          "NEARMALLOC_PURGE_THREAD=" + std::to_string(random.below(2)),
          "NEAR_FAKE_OS=page=" + draw(kPages) + ",address_space=8589934592"};
}

[[noreturn]] void play(const Arguments& arguments) {
  alarm(kSecondsOfSeed);
  const uint64_t seed = arguments.first;
  rules = {seed, seed % 2 == 0, arguments.fault};
  // Not on a stack: that would end with the main thread of a child.
  static Play play(seed, arguments.forks, rules.refusals);
  play.run();
  const uint64_t operations = play.operations();
  const bool told = write(kReport, &operations, sizeof operations) == sizeof operations;
  _exit(told ? 0 : 1);
}

[[noreturn]] void start_again(const Arguments& arguments, uint64_t seed, int report) {
  std::vector<std::string> world = world_of(seed);
  for (std::string& each : world) putenv(each.data());
  const std::string text = std::to_string(seed);
  const std::string fault(arguments.fault);
  std::vector<const char*> words = {"fuzz_driver", "--play", "--seed", text.c_str()};
  if (!arguments.forks) words.push_back("--no-forks");
  if (!fault.empty()) words.insert(words.end(), {"--fault", fault.c_str()});
  words.push_back(nullptr);
  if (dup2(report, kReport) == kReport)
    execv("/proc/self/exe", const_cast<char* const*>(words.data()));
  std::perror("fuzz_driver: cannot start again");
  _exit(2);
}

// Plays a seed in a process of its own: its operations, or 0 if there was a fault.
uint64_t play_apart(const Arguments& arguments, uint64_t seed) {
  int ends[2];
  if (pipe(ends) != 0) misuse("no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) misuse("cannot fork");
  if (child == 0) start_again(arguments, seed, ends[1]);
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  uint64_t operations = 0;
  const bool told = read(ends[0], &operations, sizeof operations) == sizeof operations;
  close(ends[0]);
  if (status == 0 && told && operations > 0) return operations;
  const char* why = "failed";
  if (WIFSIGNALED(status)) why = strsignal(WTERMSIG(status));
  std::printf("the process ended: %s; its world was", why);
  for (const std::string& each : world_of(seed)) std::printf(" '%s'", each.c_str());
  std::printf("\nagain: fuzz_driver --seed %zu%s\n", static_cast<size_t>(seed),
              arguments.forks ? "" : " --no-forks");
  return 0;
}

int run(int argc, char** argv) {
  Arguments arguments = read_arguments(argc, argv);
  if (arguments.plays) play(arguments);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(arguments.seconds);
  if (arguments.seconds > 0) arguments.last = UINT64_MAX;
  uint64_t cases = 0;
  uint64_t seed = arguments.first;
  for (; seed <= arguments.last; seed++) {
    const uint64_t operations = play_apart(arguments, seed);
    if (operations == 0) return 1;
    cases += operations;
    if (arguments.seconds > 0 && std::chrono::steady_clock::now() >= end) break;
  }
  std::printf("seeds: from %zu on\ncases: %zu\n", static_cast<size_t>(arguments.first),
              static_cast<size_t>(cases));
  return cases > 0 ? 0 : 1;
}

}  // namespace
}  // namespace near_test::driver

int main(int argc, char** argv) { return near_test::driver::run(argc, argv); }
