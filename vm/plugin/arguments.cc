#include "arguments.h"

#include <bit>
#include <charconv>
#include <cstdio>
#include <sstream>

namespace nearcount {
namespace {

constexpr size_t kMostKib = 1 << 20;

size_t number_in(const std::string& text, const std::string& where) {
  size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) {
    throw ArgumentError(where + ": '" + text + "' is no number");
  }
  return number;
}

// Parses 0:0+1:0+2:1, with the CPUs in any order.
std::vector<unsigned> nodes_in(const std::string& text) {
  std::vector<unsigned> nodes;
  std::istringstream pairs(text);
  for (std::string pair; std::getline(pairs, pair, '+');) {
    const size_t colon = pair.find(':');
    if (colon == std::string::npos) throw ArgumentError("cpus: '" + pair + "' is not CPU:NODE");
    const size_t cpu = number_in(pair.substr(0, colon), "cpus");
    const size_t node = number_in(pair.substr(colon + 1), "cpus");
    if (cpu >= kMostCpus) throw ArgumentError("cpus: the most is " + std::to_string(kMostCpus));
    if (node >= kNodes) throw ArgumentError("cpus: nodes end below " + std::to_string(kNodes));
    if (cpu >= nodes.size()) nodes.resize(cpu + 1, kUnknownNode);
    if (nodes[cpu] != kUnknownNode) throw ArgumentError("cpus: a CPU is named twice");
    nodes[cpu] = static_cast<unsigned>(node);
  }
  for (const unsigned node : nodes) {
    if (node == kUnknownNode) throw ArgumentError("cpus: a CPU in between is missing");
  }
  return nodes;
}

void check(const CacheSize& cache) {
  const auto is_power = [](size_t number) { return std::has_single_bit(number); };
  if (!is_power(cache.line) || cache.line < 16 || cache.line > 4096) {
    throw ArgumentError("line must be a power of two from 16 to 4096");
  }
  if (cache.ways == 0 || cache.kib == 0 || cache.kib > kMostKib || cache.sets() == 0 ||
      !is_power(cache.sets()) || cache.sets() * cache.ways * cache.line != cache.kib * 1024) {
    throw ArgumentError("cache_kib, ways and line must give a power of two of sets");
  }
}

void check_writable(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "a");
  if (file == nullptr) throw ArgumentError("out: cannot write " + path);
  std::fclose(file);
}

}  // namespace

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "cpus") {
      arguments.node_of_cpu = nodes_in(value);
    } else if (key == "out") {
      arguments.out = value;
    } else if (key == "cache_kib") {
      arguments.cache.kib = number_in(value, key);
    } else if (key == "ways") {
      arguments.cache.ways = number_in(value, key);
    } else if (key == "line") {
      arguments.cache.line = number_in(value, key);
    } else {
      throw ArgumentError("'" + key + "' is no argument: cpus, out, cache_kib, ways, line are");
    }
  }
  if (arguments.node_of_cpu.empty()) throw ArgumentError("cpus=CPU:NODE+CPU:NODE... is missing");
  if (arguments.out.empty()) throw ArgumentError("out=FILE is missing");
  check(arguments.cache);
  check_writable(arguments.out);
  return arguments;
}

}  // namespace nearcount
