// The options. One table defines default, range, environment name (NEARMALLOC_<NAME>), API and
// documentation.
//
// The environment is read once, and not in a set-uid program. A bad value is reported once on
// stderr and ignored.
// Thread-safety: any thread reads a value with a relaxed load; near_set_option sets it.
#pragma once

#include <cstdint>

namespace near {

enum class Option : unsigned {
  invalid,
  stats,
  verbose,
  purge_thread,
  magazines,
  decay_ms,
  dirty_mib,
  huge_pages,
  bind,
  region_mib,
  populate_mib,
  deepbind,
  explain,
  profile,
  profile_interval,
  profile_format,
  profile_stacks,
  profile_signal,
  count,
};

enum class OnInvalid : long { abort = 0, report = 1, ignore = 2 };
enum class AtExit : long { nothing = 0, text = 1, json = 2, openmetrics = 3 };
enum class Binding : long { off = 0, preferred = 1, strict = 2 };
enum class Explain : long { off = 0, exit = 1, signal = 2 };
enum class Deepbind : long { drop = 0, keep = 1 };

struct OptionInfo {
  const char* name;
  long initial;
  long lowest;
  long highest;
  const char* words;  // names of the values from `lowest` on, separated by '|'; null: a number
  const char* help;
};

inline constexpr unsigned kOptions = static_cast<unsigned>(Option::count);
extern const OptionInfo kOptionTable[kOptions];

long option(Option which);

// Sets an option by name. False if there is no such option or the value is out of range.
bool set_option(const char* name, long value);

// The index of a name in the table, or kOptions.
unsigned find_option(const char* name);

// An option of one library alone, which is no number: NEARMALLOC_<NAME>, or null.
struct TextOption {
  const char* name;
  const char* value;
};

// Reads NEARMALLOC_* once. Calls before the environment is known (null) do nothing. `own`: an
// option that the caller's library knows besides those of the table; or null.
void read_options(char* const* environment, TextOption* own = nullptr);

// The text of NEARMALLOC_TOPOLOGY, or null.
const char* topology_text();

// The text of NEARMALLOC_PROFILE_FILE, or null.
const char* profile_file_text();

}  // namespace near
