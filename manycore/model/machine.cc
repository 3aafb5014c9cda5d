#include "model/machine.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace near::manycore {
namespace {

char message[256];

struct Field {
  std::string_view name;
  Time Machine::*time;
};
constexpr Field kTimes[] = {
    {"memory_local", &Machine::memory_local},
    {"memory_remote", &Machine::memory_remote},
    {"transfer_core", &Machine::transfer_core},
    {"transfer_socket", &Machine::transfer_socket},
    {"invalidate", &Machine::invalidate},
    {"atomic", &Machine::atomic},
    {"basic_block", &Machine::basic_block},
    {"system_call", &Machine::system_call},
    {"fault_small", &Machine::fault_small},
    {"fault_huge", &Machine::fault_huge},
    {"zero_kibibyte", &Machine::zero_kibibyte},
    {"unmap_page", &Machine::unmap_page},
    {"interrupt_send", &Machine::interrupt_send},
    {"interrupt_take", &Machine::interrupt_take},
    {"futex_wait", &Machine::futex_wait},
    {"futex_wake", &Machine::futex_wake},
    {"context_switch", &Machine::context_switch},
    {"idle_wake", &Machine::idle_wake},
    {"quantum", &Machine::quantum},
};

struct Count {
  std::string_view name;
  unsigned Machine::*count;
  unsigned most;
};
constexpr Count kCounts[] = {
    {"processors", &Machine::processors, kMostProcessors},
    {"cores", &Machine::cores, kMostCores},
    {"sockets", &Machine::sockets, kMostSockets},
    {"nodes", &Machine::nodes, kMostNodes},
    {"shared_core_percent", &Machine::shared_core_percent, 1000},
};

struct List {
  std::string_view name;
  uint16_t (Machine::*values)[kMostProcessors];
  unsigned Machine::*limit;
};
constexpr List kLists[] = {
    {"core_of", &Machine::core_of, &Machine::cores},
    {"socket_of", &Machine::socket_of, &Machine::sockets},
    {"node_of", &Machine::node_of, &Machine::nodes},
};

struct CacheField {
  std::string_view name;
  Cache Machine::*cache;
};
constexpr CacheField kCaches[] = {
    {"l1", &Machine::l1}, {"l2", &Machine::l2}, {"l3", &Machine::l3}};

// The words of one line.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  std::string_view next() {
    const size_t begin = std::min(rest_.find_first_not_of(' '), rest_.size());
    const size_t end = std::min(rest_.find(' ', begin), rest_.size());
    const std::string_view word = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return word;
  }
  // The next word is a number of at most `most`; otherwise false.
  template <typename Number>
  bool number(Number& value, uint64_t most) {
    const std::string_view word = next();
    uint64_t found = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), found);
    if (error != std::errc{} || end != word.data() + word.size() || found > most) return false;
    value = static_cast<Number>(found);
    return true;
  }
  bool done() { return rest_.find_first_not_of(' ') == std::string_view::npos; }

 private:
  std::string_view rest_;
};

constexpr uint64_t kMostPicoseconds = uint64_t{1} << 50;

bool read_distances(Machine& machine, Words& words) {
  unsigned row = 0;
  if (!words.number(row, machine.nodes - 1)) return false;
  for (unsigned i = 0; i < machine.nodes; ++i) {
    if (!words.number(machine.distance[row][i], 255)) return false;
  }
  return true;
}

bool read_cache(Cache& cache, Words& words) {
  return words.number(cache.bytes, uint64_t{1} << 40) && words.number(cache.ways, 64) &&
         words.number(cache.hit, kMostPicoseconds) && cache.ways != 0;
}

// Reads one line. Returns false if its name is unknown; sets `right` to whether its values are read.
bool read_line(Machine& machine, std::string_view name, Words& words, bool& right) {
  if (name == "name") {
    const std::string_view value = words.next();
    right = !value.empty() && value.size() < sizeof machine.name;
    if (right) value.copy(machine.name, value.size());
    return true;
  }
  if (name == "huge_pages_always") return right = words.number(machine.huge_pages_always, 1), true;
  if (name == "distance") return right = machine.nodes != 0 && read_distances(machine, words), true;
  for (const Field& field : kTimes) {
    if (field.name == name)
      return right = words.number(machine.*field.time, kMostPicoseconds), true;
  }
  for (const Count& field : kCounts) {
    if (field.name != name) continue;
    right = words.number(machine.*field.count, field.most) && machine.*field.count != 0;
    return true;
  }
  for (const CacheField& field : kCaches) {
    if (field.name == name) return right = read_cache(machine.*field.cache, words), true;
  }
  for (const List& list : kLists) {
    if (list.name != name) continue;
    right = machine.processors != 0 && machine.*list.limit != 0;
    for (unsigned i = 0; right && i < machine.processors; ++i) {
      right = words.number((machine.*list.values)[i], machine.*list.limit - 1);
    }
    return true;
  }
  return false;
}

const char* complaint(const char* what, std::string_view name) {
  std::snprintf(message, sizeof message, "%s '%.*s'", what, static_cast<int>(name.size()),
                name.data());
  return message;
}

constexpr size_t kNames = 2 + 1 + std::size(kTimes) + std::size(kCounts) + std::size(kLists) +
                          std::size(kCaches);

}  // namespace

const char* parse_machine(const char* text, Machine& machine) {
  machine = {};
  size_t names = 0;
  unsigned rows = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    Words words(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string_view name = words.next();
    if (name.empty()) continue;
    bool right = false;
    if (!read_line(machine, name, words, right)) return complaint("unknown name", name);
    if (!right || !words.done()) return complaint("wrong value of", name);
    name == "distance" ? ++rows : ++names;
  }
  if (names != kNames - 1) return "a name is missing or given twice";
  return rows == machine.nodes ? nullptr : "a row of distances is missing";
}

}  // namespace near::manycore
