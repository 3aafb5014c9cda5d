#include "engine/description.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "engine/engine.h"

namespace near::manycore {
namespace {

constexpr size_t kMostBytes = size_t{1} << 16;

Description the_description;

size_t read_file(const char* path, char* text) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("cannot read the description %s", path);
  size_t length = 0;
  for (ssize_t got = 1; got > 0 && length < kMostBytes - 1; length += static_cast<size_t>(got)) {
    got = read(file, text + length, kMostBytes - 1 - length);
    if (got < 0) fail("cannot read the description %s", path);
  }
  close(file);
  text[length] = 0;
  return length;
}

uint64_t number(std::string_view name, std::string_view text, uint64_t most) {
  uint64_t value = 0;
  bool right = !text.empty() && text.size() < 19;
  for (const char digit : text) {
    right = right && digit >= '0' && digit <= '9';
    value = value * 10 + static_cast<uint64_t>(digit - '0');
  }
  if (!right || value > most) {
    fail("the description has a wrong value of '%.*s'", static_cast<int>(name.size()), name.data());
  }
  return value;
}

template <size_t size>
void copy(char (&to)[size], std::string_view text) {
  if (text.size() >= size) fail("the description has a path that is too long");
  text.copy(to, text.size());
}

void add_pretended(std::string_view paths) {
  const auto free = std::find_if(
      std::begin(the_description.pretended), std::end(the_description.pretended),
      [](const Pretended& each) { return each.path[0] == 0; });
  const size_t space = paths.find(' ');
  if (free == std::end(the_description.pretended) || space == paths.npos) {
    fail("the description pretends too much, or nothing");
  }
  copy(free->path, paths.substr(0, space));
  copy(free->other, paths.substr(space + 1));
}

// Reads a line of the run. Returns false if the line is the machine's.
bool read_line(std::string_view name, std::string_view value) {
  Description& run = the_description;
  if (name == "online") {
    run.online = static_cast<unsigned>(number(name, value, kMostProcessors));
  } else if (name == "seed") {
    run.seed = number(name, value, uint64_t{1} << 60);
  } else if (name == "slack") {
    run.slack = number(name, value, kNanosecond * 1'000'000);
  } else if (name == "report_lines") {
    run.report_lines = static_cast<unsigned>(number(name, value, 10'000));
  } else if (name == "blocks") {
    run.blocks = number(name, value, 1) != 0;
  } else if (name == "result") {
    copy(run.result, value);
  } else if (name == "pretended") {
    add_pretended(value);
  } else {
    return false;
  }
  return true;
}

// Takes the lines of the run out of the text; the machine's remain.
void read_run(char* text, size_t length) {
  size_t kept = 0;
  for (std::string_view rest(text, length); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t space = std::min(line.find(' '), line.size());
    if (read_line(line.substr(0, space), line.substr(std::min(space + 1, line.size())))) continue;
    std::memmove(text + kept, line.data(), line.size());
    text[kept + line.size()] = '\n';
    kept += line.size() + 1;
  }
  text[kept] = 0;
}

}  // namespace

const Description& description() { return the_description; }
const Machine& machine() { return the_description.machine; }
unsigned online() { return the_description.online; }

void read_description(const char* path) {
  auto* const text = static_cast<char*>(reserve(kMostBytes + 1));
  read_run(text, read_file(path, text));
  if (const char* const wrong = parse_machine(text, the_description.machine)) {
    fail("the description of the machine is wrong: %s", wrong);
  }
  if (the_description.online == 0) the_description.online = machine().processors;
  if (online() > machine().processors) {
    fail("%u processors are wanted, the machine has %u", online(), machine().processors);
  }
  if (the_description.result[0] == 0) fail("the description has no result");
}

const char* redirected(const char* path, char* buffer, size_t bytes) {
  const std::string_view whole = path;
  for (const Pretended& each : the_description.pretended) {
    const std::string_view pretended = each.path, other = each.other;
    if (pretended.empty() || !whole.starts_with(pretended)) continue;
    const std::string_view rest = whole.substr(pretended.size());
    if (!rest.empty() && rest[0] != '/') continue;
    if (other.size() + rest.size() + 1 > bytes) return path;
    other.copy(buffer, other.size());
    rest.copy(buffer + other.size(), rest.size());
    buffer[other.size() + rest.size()] = 0;
    return buffer;
  }
  return path;
}

}  // namespace near::manycore
