// Prints the option table: as Markdown for docs/options.md, or as help text.
// Only the table itself (platform/options.cc) describes options.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

#include "platform/options.h"

namespace {

std::string environment_name(const char* name) {
  std::string capitals = "NEARMALLOC_";
  for (; *name != '\0'; name++) capitals += static_cast<char>(std::toupper(*name));
  return capitals;
}

// Returns the value as a user writes it: its word if it has one.
std::string shown(const near::OptionInfo& option, long value) {
  if (option.words == nullptr) return std::to_string(value);
  const char* word = option.words;
  for (long i = option.lowest; i < value; i++) word = std::strchr(word, '|') + 1;
  return std::string(word, std::strcspn(word, "|"));
}

std::string range(const near::OptionInfo& option) {
  if (option.words == nullptr) {
    return std::to_string(option.lowest) + " to " + std::to_string(option.highest);
  }
  std::string words = option.words;
  for (size_t at = 0; (at = words.find('|', at)) != std::string::npos; at += 4) {
    words.replace(at, 1, " or ");
  }
  return words;
}

void print_markdown() {
  std::puts(
      "# Options\n\n"
      "Read from the environment at the first allocation, never in a set-uid program. A bad value "
      "is reported once on\nstderr and ignored. `near_set_option` and `near_get_option` take the "
      "lower-case names. This page is generated\nfrom the option table; a test compares them.\n\n"
      "| environment | default | values | meaning |\n|---|---|---|---|");
  for (const near::OptionInfo& option : near::kOptionTable) {
    std::printf("| `%s` | %s | %s | %s |\n", environment_name(option.name).c_str(),
                shown(option, option.initial).c_str(), range(option).c_str(), option.help);
  }
  std::puts(
      "| `NEARMALLOC_TOPOLOGY` | from the kernel | text | a machine to pretend: "
      "`nodes=2;cpus=0-1,2-3+8;distance=10,20,20,10` |\n"
      "| `NEARMALLOC_PROFILE_FILE` | nearmalloc.%p.profile | text | where the profile is written; "
      "`%p` becomes the process's number, `%n` that of the profile, from 1 on; `unix:PATH`: to a "
      "socket, whose other end lets the process end; `kept:PATH`: it is kept in this file while "
      "the "
      "process runs, and `,unix:PATH` may follow |");
}

void print_help() {
  for (const near::OptionInfo& option : near::kOptionTable) {
    std::printf("  %-26s %s (%s; default %s)\n", environment_name(option.name).c_str(), option.help,
                range(option).c_str(), shown(option, option.initial).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--markdown") == 0) {
    print_markdown();
  } else if (argc == 1 || (argc == 2 && std::strcmp(argv[1], "--help") == 0)) {
    print_help();
  } else {
    std::fprintf(stderr, "near-options: unknown option '%s'; there are --markdown and --help\n",
                 argv[1]);
    return 2;
  }
  return 0;
}
