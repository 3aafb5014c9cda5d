// Fuzz target: the entries of the environment that options are read from.
//
// An input is the environment, an entry a line. The file under test is compiled into this one:
// a process reads its environment once, but here it is read for every input, and its messages are
// counted.
// Invariant: the options afterwards, and the number of messages, are what the reading in this file
// gives, which shares only the table with the reading under test.
// Thread-safety: libFuzzer's thread.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/harness.h"
#include "platform/message.h"
#include "platform/options.h"

namespace near {

size_t lines_said = 0;

__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  char line[4096];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  near_test::fuzz::demand(length > 10, "an empty message");
  near_test::fuzz::note("%s", line);
  lines_said++;
}

}  // namespace near

#define message say
#include "platform/options.cc"
#undef message

namespace near_test::fuzz {
namespace {

using near::kOptions;
using near::kOptionTable;
using near::OptionInfo;

constexpr std::string_view kOurs = "NEARMALLOC_";

std::string capitals(std::string_view name) {
  std::string result(name);
  for (char& letter : result) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return result;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The value that a text stands for, if it is one and in range.
std::optional<long> value_of_text(const OptionInfo& info, const std::string& text) {
  if (info.words != nullptr) {
    const std::vector<std::string> words = split(info.words, '|');
    const auto found = std::find(words.begin(), words.end(), text);
    if (found != words.end()) return info.lowest + (found - words.begin());
  }
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) return std::nullopt;
  const size_t first = std::min(text.find_first_not_of('0'), text.size() - 1);
  if (text.size() - first > 12) return std::nullopt;
  const long value = std::stol(text.substr(first));
  if (value < info.lowest || value > info.highest) return std::nullopt;
  return value;
}

// What the options should be after some entries.
struct Expected {
  long values[kOptions];
  size_t lines = 0;
  std::optional<std::string> topology;
  std::optional<std::string> profile_file;
  std::optional<std::string> design_options;

  Expected() {
    for (unsigned i = 0; i < kOptions; i++) values[i] = kOptionTable[i].initial;
  }

  void read(const std::string& entry) {
    if (!entry.starts_with(kOurs)) return;
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const std::string text = equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (equals != std::string::npos && set(name.substr(kOurs.size()), text)) return;
    lines++;
  }

 private:
  static bool store(std::optional<std::string>& option, const std::string& text) {
    option = text;
    return true;
  }

  // False if a message is due.
  bool set(const std::string& name, const std::string& text) {
    if (name == "TOPOLOGY") return store(topology, text);
    if (name == "PROFILE_FILE") return store(profile_file, text);
    if (name == "DESIGN_OPTIONS") return store(design_options, text);
    for (unsigned i = 0; i < kOptions; i++) {
      if (capitals(kOptionTable[i].name) != name) continue;
      const std::optional<long> value = value_of_text(kOptionTable[i], text);
      values[i] = value.value_or(values[i]);
      return value.has_value();
    }
    return false;
  }
};

near::TextOption own{"design_options", nullptr};

void read(std::vector<std::string>& entries) {
  std::vector<char*> environment;
  for (std::string& each : entries) environment.push_back(each.data());
  environment.push_back(nullptr);
  near::have_read = false;
  near::read_options(environment.data(), &own);
  near::read_options(environment.data(), &own);  // again: nothing may be said twice
}

// Every option at its default, and no line said.
void start_anew() {
  std::vector<std::string> entries;
  for (const OptionInfo& info : kOptionTable)
    entries.push_back(std::string(kOurs) + capitals(info.name) + "=" +
                      std::to_string(info.initial));
  read(entries);
  near::lines_said = 0;
}

void expect_text(const char* name, const std::optional<std::string>& expected, const char* text) {
  if (!expected.has_value()) return;
  demand(text != nullptr && *expected == text, "%s is '%s', not '%s'", name, text,
         expected->c_str());
}

void play(const std::string& input) {
  start_anew();
  // As the kernel gives it: an entry ends at its first zero.
  std::vector<std::string> entries = split(input, '\n');
  for (std::string& each : entries) each.resize(std::strlen(each.c_str()));
  Expected expected;
  for (const std::string& each : entries) expected.read(each);
  read(entries);
  size_t lines = near::lines_said;
  if (has_fault("silent") && lines > 1) lines = 1;
  demand(lines == expected.lines, "%zu lines were said, not %zu", lines, expected.lines);
  for (unsigned i = 0; i < kOptions; i++) {
    const OptionInfo& info = kOptionTable[i];
    long value = near::option(static_cast<near::Option>(i));
    if (has_fault("range") && value == info.highest) value++;
    if (has_fault("word") && info.words != nullptr && value == 1) value = 2;
    demand(value >= info.lowest && value <= info.highest, "%s is %ld", info.name, value);
    demand(value == expected.values[i], "%s is %ld, not %ld", info.name, value, expected.values[i]);
  }
  expect_text("topology", expected.topology, near::topology_text());
  expect_text("profile_file", expected.profile_file, near::profile_file_text());
  expect_text("design_options", expected.design_options, own.value);
}

}  // namespace
}  // namespace near_test::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  near_test::fuzz::count_input();
  near_test::fuzz::play(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
