#include "platform/options.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/message.h"

// relaxed in this file: options are independent values; nothing is published through them.

namespace near {

const OptionInfo kOptionTable[kOptions] = {
    {"invalid", 0, 0, 2, "abort|report|ignore", "what a detected invalid or double free does"},
    {"stats", 0, 0, 3, "off|text|json|openmetrics", "how statistics are printed on stderr at exit"},
    {"verbose", 0, 0, 1, nullptr, "1: say at start which memory and topology are used"},
    {"purge_thread", 1, 0, 1, nullptr,
     "1: while a process has two threads or more, another one gives free memory back; 0 (also by "
     "near_set_option): none, the threads' slow paths and near_malloc_trim do it"},
    {"magazines", 8, 0, 4096, nullptr,
     "blocks that another thread frees wait in magazines, for reuse by any thread of their node, "
     "if the process may run on so many CPUs at its start; 0: never"},
    {"decay_ms", 1000, 0, 600000, nullptr,
     "milliseconds that freed memory is kept before it is given back"},
    {"dirty_mib", 64, 0, 1048576, nullptr,
     "free memory (MiB) kept at most before it is given back at once; 1.5 times what was "
     "recently live if that is more"},
    {"huge_pages", 1, 0, 1, nullptr,
     "1: ask for transparent huge pages for memory that is likely to be written, while such pages "
     "come fast; 0: never"},
    {"bind", 1, 0, 2, "off|preferred|strict",
     "how memory is bound to its NUMA node; preferred: not if the process has a memory policy, as "
     "by "
     "numactl"},
    {"region_mib", 0, 0, 1 << 26, nullptr,
     "address space (MiB) planned for each node; 0: twice the memory"},
    {"populate_mib", 0, 0, 1048576, nullptr,
     "free memory (MiB) of each node that is made resident at start (or by near_set_option), and "
     "kept, so that malloc waits for no page fault while it lasts"},
    {"deepbind", 0, 0, 1, "drop|keep",
     "drop: dlopen goes without RTLD_DEEPBIND, under which a library finds the C library's malloc "
     "before the program's"},
    {"explain", 0, 0, 2, "off|exit|signal",
     "exit: near_explain writes to stderr at exit; signal: it does so at each SIGUSR2"},
    {"profile", 0, 0, 1, "off|on",
     "on: sample allocations from the start, and write a profile at exit (docs/profile.md)"},
    {"profile_interval", 524288, 1, 1000000000, nullptr,
     "bytes between two samples of the profiler, on average"},
    {"profile_format", 0, 0, 4, "pprof|json|jeprof|collapsed|collapsed_live",
     "the format of the profile that is written at exit"},
    {"profile_stacks", 0, 0, 1, "tables|frames",
     "tables: stacks are read by unwind tables; frames: by frame pointers, which is faster, and "
     "shows only code that was compiled with them"},
    {"profile_signal", 0, 0, 64, nullptr,
     "the number of a signal at which the process writes its profile, and goes on; 0: none"},
};

namespace {

constexpr char kPrefix[] = "NEARMALLOC_";
constinit Atomic<long> values[kOptions];
constinit Atomic<bool> set_by_hand[kOptions];
bool have_read = false;
const char* topology_value = nullptr;
const char* profile_file_value = nullptr;

// The value of a NAME=VALUE entry of the environment if NAME is the prefix followed by `name` in
// capitals; else null.
const char* value_of(const char* entry, const char* name) {
  const char* at = entry + sizeof kPrefix - 1;
  for (; *name != '\0'; name++, at++) {
    const char capital =
        *name >= 'a' && *name <= 'z' ? static_cast<char>(*name - 'a' + 'A') : *name;
    if (*at != capital) return nullptr;
  }
  return *at == '=' ? at + 1 : nullptr;
}

bool parse_word(const OptionInfo& info, const char* text, long& value) {
  if (info.words == nullptr) return false;
  const size_t length = strlen(text);
  long index = info.lowest;
  for (const char* word = info.words;; index++) {
    const char* end = strchrnul(word, '|');
    if (static_cast<size_t>(end - word) == length && strncmp(word, text, length) == 0) {
      value = index;
      return true;
    }
    if (*end == '\0') return false;
    word = end + 1;
  }
}

bool parse_number(const char* text, long& value) {
  if (*text == '\0') return false;
  long sum = 0;
  for (; *text != '\0'; text++) {
    if (*text < '0' || *text > '9' || sum > 1'000'000'000) return false;
    sum = sum * 10 + (*text - '0');
  }
  value = sum;
  return true;
}

void read_entry(const char* entry, TextOption* own) {
  const auto name = static_cast<int>(strcspn(entry, "="));
  if (const char* text = value_of(entry, "topology")) {
    topology_value = text;
    return;
  }
  if (const char* text = value_of(entry, "profile_file")) {
    profile_file_value = text;
    return;
  }
  if (const char* text = own == nullptr ? nullptr : value_of(entry, own->name)) {
    own->value = text;
    return;
  }
  for (unsigned i = 0; i < kOptions; i++) {
    const OptionInfo& info = kOptionTable[i];
    const char* text = value_of(entry, info.name);
    if (text == nullptr) continue;
    long value = 0;
    const bool good = parse_word(info, text, value) || parse_number(text, value);
    if (good && value >= info.lowest && value <= info.highest) {
      if (!set_by_hand[i].load(kRelaxed)) values[i].store(value - info.initial, kRelaxed);
    } else if (info.words != nullptr) {
      message("%.*s is ignored: '%s' is not one of %s", name, entry, text, info.words);
    } else {
      message("%.*s is ignored: '%s' is not a number from %ld to %ld", name, entry, text,
              info.lowest, info.highest);
    }
    return;
  }
  message("there is no option %.*s", name, entry);
}

}  // namespace

long option(Option which) {
  const auto index = static_cast<unsigned>(which);
  return kOptionTable[index].initial + values[index].load(kRelaxed);
}

unsigned find_option(const char* name) {
  unsigned index = 0;
  while (index < kOptions && strcmp(kOptionTable[index].name, name) != 0) index++;
  return index;
}

bool set_option(const char* name, long value) {
  const unsigned index = find_option(name);
  if (index == kOptions) return false;
  const OptionInfo& info = kOptionTable[index];
  if (value < info.lowest || value > info.highest) return false;
  set_by_hand[index].store(true, kRelaxed);
  values[index].store(value - info.initial, kRelaxed);
  return true;
}

NEAR_COLD void read_options(char* const* environment, TextOption* own) {
  if (have_read || environment == nullptr) return;
  have_read = true;
  if (getauxval(AT_SECURE) != 0) return;
  for (char* const* entry = environment; *entry != nullptr; entry++) {
    if (strncmp(*entry, kPrefix, sizeof kPrefix - 1) == 0) read_entry(*entry, own);
  }
}

const char* topology_text() { return topology_value; }

const char* profile_file_text() { return profile_file_value; }

}  // namespace near
