// Starts a trivial program (idle) many times, one after the other: shells, build systems, CGI.
// The children inherit the preloaded allocator; each ends right after one malloc and free.
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>

#include "bench.h"

int main(int argc, char** argv) {
  size_t times = 200;
  bench::Bench bench("start_up", "starts a program that does nothing, again and again");
  bench.option("--times", times, "how often");
  bench.parse(argc, argv);

  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "idle";
  const char* const arguments[] = {program.c_str(), "quiet", nullptr};
  const double start = bench::now();
  for (size_t i = 0; i < times; ++i) {
    pid_t child;
    int status = 0;
    const int error = posix_spawn(&child, program.c_str(), nullptr, nullptr,
                                  const_cast<char* const*>(arguments), environ);
    if (error != 0 || waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "%s cannot be run\n", program.c_str());
      return 1;
    }
  }
  return bench.report(bench::now() - start, times, times);
}
