// Simulations of the allocator's NUMA side: virtual threads on a fake topology, by seeds.
//
//   numa_simulator [--world NAME] [--seed N | --seeds FIRST-LAST] [--steps N] [--every N] [--trace]
//                  [--damage KIND@STEP]
//
// A violation is reported as "seed S step N: what", with the command that repeats it; with
// --every 1 everything is checked after each step, which changes nothing else. Each seed plays in a
// process of its own, forked from one that has not allocated. The last line is "cases: steps".
// Exit status: 0, 1 for a violation, 2 for wrong use.
// Thread-safety: one process; it restarts itself with the environment that makes the world.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "numa/simulator_play.h"

namespace near_test {
namespace {

struct Arguments {
  const World* world = find_world("4");
  uint64_t first = 1;
  uint64_t last = 1;
  bool trace = false;
  Settings settings;
};

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr,
               "numa_simulator: %s\nusage: numa_simulator [--world NAME] [--seed N | --seeds "
               "FIRST-LAST] [--steps N] [--every N] [--trace] [--damage KIND@STEP]\nworlds:",
               what);
  for (const World& world : worlds()) std::fprintf(stderr, " %s", world.name);
  std::fprintf(stderr, "\n");
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

void read_damage(std::string_view text, Settings& settings) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos) misuse("--damage KIND@STEP");
  settings.damage = text.substr(0, at);
  settings.damage_step = number(text.substr(at + 1));
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i++) {
    const std::string_view name = argv[i];
    if (name == "--trace") {
      arguments.trace = true;
      continue;
    }
    if (i + 1 == argc) misuse("an option without its value, or none at all");
    const std::string_view value = argv[++i];
    if (name == "--world") {
      arguments.world = find_world(value);
      if (arguments.world == nullptr) misuse("there is no such world");
    } else if (name == "--seed" || name == "--seeds") {
      read_seeds(value, arguments);
    } else if (name == "--steps") {
      arguments.settings.steps = number(value);
    } else if (name == "--every") {
      arguments.settings.every = static_cast<unsigned>(number(value));
      if (arguments.settings.every == 0) misuse("--every 0");
    } else if (name == "--damage") {
      read_damage(value, arguments.settings);
    } else {
      misuse("an unknown option");
    }
  }
  return arguments;
}

// The library reads its environment before main: if it is another, the program starts again.
void enter_world(const World& world, char** argv) {
  const std::string region = std::to_string(world.region_mib);
  const std::pair<const char*, const char*> wanted[] = {{"NEARMALLOC_TOPOLOGY", world.topology},
                                                        {"NEARMALLOC_REGION_MIB", region.c_str()},
                                                        {"NEARMALLOC_PURGE_THREAD", "0"},
                                                        {"NEARMALLOC_DECAY_MS", "1000"}};
  bool is_there = true;
  for (const auto& [name, value] : wanted) {
    const char* present = std::getenv(name);
    is_there = is_there && present != nullptr && std::strcmp(present, value) == 0;
    setenv(name, value, 1);
  }
  if (!is_there) {
    execv("/proc/self/exe", argv);
    std::perror("numa_simulator: cannot start again");
    std::exit(2);
  }
  // Kernel numbers with holes; regions that are added later are bound to them.
  near::topology.real = world.nodes > 1;
  for (unsigned n = 0; n < world.nodes; n++)
    near::topology.kernel_id[n] = static_cast<uint16_t>(3 * n + 1);
}

Report* share_reports() {
  void* room = mmap(nullptr, kGenerations * sizeof(Report), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    std::perror("numa_simulator: no shared memory");
    std::exit(2);
  }
  return static_cast<Report*>(room);
}

[[noreturn]] void play(const Arguments& arguments, uint64_t seed, Report* reports) {
  Journal journal(seed, arguments.trace, reports);
  Simulation simulation(journal, *arguments.world, arguments.settings);
  simulation.run();
  std::fflush(stdout);
  _exit(0);
}

// Plays a seed in a process of its own. False if that found a violation, or died.
bool play_apart(const Arguments& arguments, uint64_t seed, Report* reports) {
  *reports = Report{};
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) play(arguments, seed, reports);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::perror("numa_simulator: cannot fork");
    std::exit(2);
  }
  if (status == 0 && reports->complete) return true;
  if (WIFSIGNALED(status)) {
    std::printf("seed %" PRIu64 " step %" PRIu64 ": ended by signal %d; %s\n", seed, reports->step,
                WTERMSIG(status), reports->action);
  }
  std::printf("again: numa_simulator --world %s --seed %" PRIu64 " --steps %" PRIu64
              " --every 1 --trace\n",
              arguments.world->name, seed, arguments.settings.steps);
  return false;
}

// True if the seeds together played everything that this world can play.
bool saw_everything(const World& world, const uint64_t* events) {
  bool everything = true;
  for (unsigned i = 0; i < kEvents; i++) {
    const auto event = static_cast<Event>(i);
    const bool needs_nodes =
        event == Event::migration || event == Event::rehome || event == Event::spill;
    if (events[i] > 0 || (needs_nodes && world.nodes == 1)) continue;
    std::printf("no %s in all these seeds\n", name_of(event));
    everything = false;
  }
  return everything;
}

int run(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  enter_world(*arguments.world, argv);
  if (near::topology.count != arguments.world->nodes) misuse("the world could not be made");
  Report* reports = share_reports();
  uint64_t events[kEvents] = {};
  for (uint64_t seed = arguments.first; seed <= arguments.last; seed++) {
    if (!play_apart(arguments, seed, reports)) return 1;
    for (unsigned i = 0; i < kEvents; i++)
      events[i] += reports->events[i] + reports->of_children[i];
    if (arguments.first == arguments.last)
      std::printf("seed %" PRIu64 ": hash %016" PRIx64 "\n", seed, reports->hash);
  }
  for (unsigned i = 0; i < kEvents; i++)
    std::printf("%s: %" PRIu64 "\n", name_of(static_cast<Event>(i)), events[i]);
  constexpr uint64_t kEnough = 10;  // seeds that play every kind of event
  const bool enough = arguments.last - arguments.first + 1 >= kEnough;
  if (enough && !saw_everything(*arguments.world, events)) return 1;
  std::printf("cases: %" PRIu64 "\n", events[static_cast<unsigned>(Event::step)]);
  return 0;
}

}  // namespace
}  // namespace near_test

int main(int argc, char** argv) { return near_test::run(argc, argv); }
