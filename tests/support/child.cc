#include "support/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace near_test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& each : strings) result.push_back(each.data());
  result.push_back(nullptr);
  return result;
}

// The words that must precede a command where this machine cannot run the program by itself.
std::vector<std::string> emulator() {
  const char* text = std::getenv("NEAR_TEST_EMULATOR");
  std::istringstream rest(text != nullptr ? text : "");
  std::vector<std::string> words;
  for (std::string word; rest >> word;) words.push_back(word);
  return words;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) throw std::runtime_error("no path of this program");
  return {path, static_cast<size_t>(length)};
}

Ended run_child(const std::vector<std::string>& command,
                const std::vector<std::string>& environment) {
  std::vector<std::string> words = emulator();
  words.insert(words.end(), command.begin(), command.end());
  std::vector<std::string> variables = environment;
  for (char** entry = environ; *entry != nullptr; entry++) {
    const std::string_view each(*entry);
    if (!each.starts_with("NEARMALLOC_") && !each.starts_with("NEAR_FAKE_OS")) {
      variables.emplace_back(each);
    }
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0].c_str(), &actions, nullptr,
                                 pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw std::runtime_error("cannot start " + words[0]);
  }
  Ended ended{0, read_all(ends[0])};
  close(ends[0]);
  waitpid(child, &ended.status, 0);
  return ended;
}

}  // namespace near_test
