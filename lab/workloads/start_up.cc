// Starts a trivial program (bench/idle) many times, one after the other, as shells, build systems
// and CGI do. The children inherit the preloaded allocator; each ends after one malloc and free.
// The parent keeps a block for each child, as a shell keeps its jobs. Our own.
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "workload.h"

namespace {

// Runs the program to its end, quietly or with its output in the file of `actions`.
bool run(const std::string& program, const posix_spawn_file_actions_t* actions = nullptr) {
  const char* const arguments[] = {program.c_str(), actions ? nullptr : "quiet", nullptr};
  pid_t child;
  int status = 0;
  return posix_spawn(&child, program.c_str(), actions, nullptr, const_cast<char* const*>(arguments),
                     environ) == 0 &&
         waitpid(child, &status, 0) == child && status == 0;
}

// Resident memory and page tables of the trivial program, in KiB; 0 if it does not say. No shell
// runs it, because a shell would run on the allocator under test.
long memory_of(const std::string& program) {
  FILE* const output = std::tmpfile();
  if (output == nullptr) return 0;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(output), STDOUT_FILENO);
  run(program, &actions);
  posix_spawn_file_actions_destroy(&actions);
  std::rewind(output);
  const auto result = nlohmann::json::parse(output, nullptr, false);
  std::fclose(output);
  return result.is_object() ? result.value("rss_kib", 0L) + result.value("vm_pte_kib", 0L) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  size_t times = 2000;
  workload::Workload workload("start_up", "starts a program that does nothing, again and again");
  workload.count("--times", times, 800, "how often");
  workload.parse(argc, argv);

  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../bench/idle";
  workload::Blocks notes(times);
  workload::Worker worker(0);
  // Each delivered SIGCHLD would stop this traced program and wake the launcher.
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  workload.begin();
  for (workload::Block& note : notes) {
    note = worker.allocate(sizeof(pid_t) * 16);
    if (!run(program)) {
      std::fprintf(stderr, "%s cannot be run\n", program.c_str());
      return 1;
    }
  }
  workload.end();
  for (const workload::Block& note : notes) worker.release(note);
  workload.join(worker);
  workload.add("idle_kib", memory_of(program));
  return workload.report();
}
