#include "platform/topology.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/bits.h"
#include "base/compiler.h"
#include "platform/raw_io.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

constexpr unsigned kKernelNodes = 1024;
constexpr unsigned kFar = 255;

// A cursor over text. A successful reader moves it past the text that it read.
struct Cursor {
  const char* at;

  bool take(char expected) {
    if (*at != expected) return false;
    at++;
    return true;
  }
  bool take(const char* word) {
    const size_t length = strlen(word);
    if (strncmp(at, word, length) != 0) return false;
    at += length;
    return true;
  }
  bool number(unsigned& value) {
    if (*at < '0' || *at > '9') return false;
    unsigned long sum = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
      sum = sum * 10 + static_cast<unsigned long>(*at - '0');
      if (sum > 1'000'000) return false;
    }
    value = static_cast<unsigned>(sum);
    return true;
  }
  bool range(unsigned& first, unsigned& last) {
    if (!number(first)) return false;
    last = first;
    return !take('-') || (number(last) && last >= first);
  }
};

void sort_by_distance(Topology& topology) {
  for (unsigned n = 0; n < topology.count; n++) {
    uint8_t* order = topology.order[n];
    unsigned filled = 0;
    order[filled++] = static_cast<uint8_t>(n);
    for (unsigned other = 0; other < topology.count; other++) {
      if (other == n) continue;
      unsigned place = filled++;
      const unsigned distance = topology.distance(n, other);
      for (; place > 1 && topology.distance(n, order[place - 1]) > distance; place--) {
        order[place] = order[place - 1];
      }
      order[place] = static_cast<uint8_t>(other);
    }
  }
}

// Reads a small file into `text`; an empty text if there is no such file.
void read_file(const char* path, char* text, size_t room) {
  text[0] = '\0';
  const int fd = raw::open_to_read(path);
  if (fd < 0) return;
  const ssize_t got = raw::read(fd, text, room - 1);
  raw::close(fd);
  text[got > 0 ? got : 0] = '\0';
}

// Calls visit(number) for each number of a list such as "0-3,8".
template <typename Visit>
void for_each_number(const char* list, Visit visit) {
  Cursor cursor{list};
  unsigned first = 0;
  unsigned last = 0;
  while (cursor.range(first, last)) {
    for (unsigned number = first; number <= last; number++) visit(number);
    if (!cursor.take(',')) break;
  }
}

struct NodeSet {
  unsigned long words[kKernelNodes / 64] = {};

  bool has(unsigned id) const { return (words[id / 64] >> id % 64 & 1) != 0; }
  void add(unsigned id) { words[id / 64] |= 1UL << id % 64; }
  unsigned count() const {
    unsigned sum = 0;
    for (const unsigned long word : words) sum += count_bits(word);
    return sum;
  }
  NodeSet both(const NodeSet& other) const {
    NodeSet set;
    for (unsigned i = 0; i < std::size(words); i++) set.words[i] = words[i] & other.words[i];
    return set;
  }
};

// The nodes whose memory the process may use: those of its cpuset, and, if its memory is bound
// (numactl --membind), only the bound ones among them. False if the kernel refuses to report them.
// Also tells whether the process has a policy, if there is a choice.
bool read_allowed(NodeSet& allowed, bool& has_policy) {
  if (syscall(SYS_get_mempolicy, nullptr, allowed.words, kKernelNodes, nullptr,
              MPOL_F_MEMS_ALLOWED) != 0)
    return false;
  if (allowed.count() < 2) return true;  // the common case costs one system call
  int mode = MPOL_DEFAULT;
  NodeSet bound;
  if (syscall(SYS_get_mempolicy, &mode, bound.words, kKernelNodes, nullptr, 0UL) != 0) return true;
  has_policy = chooses_nodes(mode, bound.count() > 0);
  if ((mode & ~MPOL_MODE_FLAGS) != MPOL_BIND) return true;
  const NodeSet left = allowed.both(bound);
  // A mask that is relative to the cpuset may have no node in common with it.
  if (left.count() > 0) allowed = left;
  return true;
}

// As read_allowed, from /proc: many containers refuse get_mempolicy. The memory policy stays
// unknown.
bool read_allowed_of_status(NodeSet& allowed) {
  static constexpr char kName[] = "Mems_allowed_list:";
  static char text[32 * 1024];  // long lists precede the name; static: start-up runs once
  read_file("/proc/self/status", text, sizeof text);
  const char* found = strstr(text, kName);
  if (found == nullptr || strchr(found, '\n') == nullptr) return false;
  found += strlen(kName);
  while (*found == '\t' || *found == ' ') found++;
  for_each_number(found, [&](unsigned id) {
    if (id < kKernelNodes) allowed.add(id);
  });
  return allowed.count() > 0;
}

// Calls visit(node, distance) for each node with memory to which the kernel says the distance of
// kernel node `id`. The file has one number for each node of the list `online`.
template <typename Visit>
void for_each_distance(unsigned id, const char* online, const Topology& topology, Visit visit) {
  char path[80];
  char text[4096];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%u/distance", id);
  read_file(path, text, sizeof text);
  Cursor cursor{text};
  for_each_number(online, [&](unsigned other) {
    while (cursor.take(' ')) {
    }
    unsigned distance = 0;
    if (!cursor.number(distance)) return;
    for (unsigned n = 0; n < topology.count; n++) {
      if (topology.kernel_id[n] == other) visit(n, distance);
    }
  });
}

// The node with memory that is nearest to kernel node `id`, by the kernel's distances.
unsigned nearest_with_memory(unsigned id, const char* online, const Topology& topology) {
  unsigned best = 0;
  unsigned best_distance = ~0U;
  for (unsigned n = 0; n < topology.count; n++) {
    if (topology.kernel_id[n] == id) return n;
  }
  for_each_distance(id, online, topology, [&](unsigned n, unsigned distance) {
    if (distance >= best_distance) return;
    best_distance = distance;
    best = n;
  });
  return best;
}

// False if the kernel names no CPU of kernel node `id`.
bool map_cpus(unsigned id, unsigned node, Topology& topology) {
  char path[80];
  char text[4096];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", id);
  read_file(path, text, sizeof text);
  bool any = false;
  for_each_number(text, [&](unsigned cpu) {
    if (cpu < kMaxCpus) topology.node_of_cpu[cpu] = static_cast<uint8_t>(node);
    any = true;
  });
  return any;
}

void read_distances(const char* online, Topology& topology) {
  for (unsigned n = 0; n < topology.count; n++) {
    for_each_distance(topology.kernel_id[n], online, topology, [&](unsigned other, unsigned said) {
      topology.said_distance[n][other] = static_cast<uint8_t>(min_of(said, kFar));
    });
  }
}

const char* parse_cpus(Cursor& cursor, Topology& topology) {
  for (unsigned node = 0; node < topology.count; node++) {
    if (node > 0 && !cursor.take(',')) return "cpus: one entry a node is needed, separated by ','";
    unsigned first = 0;
    unsigned last = 0;
    if (*cursor.at == ',' || *cursor.at == ';' || *cursor.at == ' ' || *cursor.at == '\0')
      continue;  // a node without CPUs
    do {
      if (!cursor.range(first, last)) return "cpus: a range such as 0-3 was expected";
      if (last >= kMaxCpus) return "cpus: a CPU number is too large";
      for (unsigned cpu = first; cpu <= last; cpu++) {
        topology.node_of_cpu[cpu] = static_cast<uint8_t>(node);
        topology.cpus[node]++;
      }
    } while (cursor.take('+'));
  }
  return nullptr;
}

const char* parse_distances(Cursor& cursor, Topology& topology) {
  const unsigned count = topology.count;
  for (unsigned i = 0; i < count * count; i++) {
    unsigned value = 0;
    if (i > 0 && !cursor.take(',')) return "distance: nodes x nodes numbers are needed";
    if (!cursor.number(value) || value > kFar) return "distance: a number up to 255 was expected";
    topology.said_distance[i / count][i % count] = static_cast<uint8_t>(value);
  }
  return nullptr;
}

// Counts the CPUs on which the process may run at start. Threads that run elsewhere later find
// fewer shards than CPUs, which costs time only.
void count_allowed_cpus(Topology& topology) {
  static unsigned long mask[kMaxCpus / 64];  // static: start-up runs once
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  for (long word = 0; word < bytes / 8; word++) {
    for (unsigned long left = mask[word]; left != 0; left &= left - 1) {
      const auto cpu = static_cast<unsigned>(word * 64 + std::countr_zero(left));
      topology.cpus[topology.node_of(cpu)]++;
    }
  }
  for (unsigned n = 0; n < topology.count; n++) {
    if (topology.cpus[n] == 0) topology.cpus[n] = 1;
  }
}

void read_nodes(Topology& topology) {
  NodeSet allowed;
  if (!read_allowed(allowed, topology.has_policy) && !read_allowed_of_status(allowed)) return;
  unsigned count = 0;
  for (unsigned id = 0; id < kKernelNodes && count < kMaxNodes; id++) {
    if (allowed.has(id)) topology.kernel_id[count++] = static_cast<uint16_t>(id);
  }
  if (count == 0) return;
  topology.count = count;
  topology.unused = allowed.count() - count;
  if (count == 1) return;
  char online[256];
  read_file("/sys/devices/system/node/online", online, sizeof online);
  bool has_cpus = false;
  for_each_number(online, [&](unsigned id) {
    if (id >= kKernelNodes) return;
    if (map_cpus(id, nearest_with_memory(id, online, topology), topology)) has_cpus = true;
  });
  if (!has_cpus) {  // no sysfs: which CPU is near which node is unknown; rely on first touch
    topology.unused += count - 1;
    topology.count = 1;
    return;
  }
  read_distances(online, topology);
  sort_by_distance(topology);
}

}  // namespace

bool chooses_nodes(int mode, bool names_nodes) {
  switch (mode & ~MPOL_MODE_FLAGS) {
    case MPOL_DEFAULT:
    case MPOL_LOCAL:
      return false;
    case MPOL_PREFERRED:
      return names_nodes;  // else it is what older kernels call MPOL_LOCAL
    default:
      return true;
  }
}

NEAR_COLD void read_topology(Topology& topology) {
  const SavedErrno saved;
  read_nodes(topology);
  topology.cpus[0] = 0;
  count_allowed_cpus(topology);
}

NEAR_COLD const char* parse_topology(const char* text, Topology& topology) {
  Topology parsed;
  parsed.real = false;
  parsed.cpus[0] = 0;
  Cursor cursor{text};
  if (!cursor.take("nodes=") || !cursor.number(parsed.count)) return "it must begin with nodes=N";
  if (parsed.count < 1 || parsed.count > kMaxNodes) return "nodes: 1 to 64 are supported";
  for (unsigned n = 0; n < parsed.count; n++) parsed.kernel_id[n] = static_cast<uint16_t>(n);
  while (cursor.take(';') || cursor.take(' ')) {
    const char* wrong = "a field must be cpus= or distance=";
    if (cursor.take("cpus=")) {
      wrong = parse_cpus(cursor, parsed);
    } else if (cursor.take("distance=")) {
      wrong = parse_distances(cursor, parsed);
    }
    if (wrong != nullptr) return wrong;
  }
  if (*cursor.at != '\0') return "there is text after the last field";
  for (unsigned n = 0; n < parsed.count; n++) {
    if (parsed.cpus[n] == 0) parsed.cpus[n] = 1;
  }
  sort_by_distance(parsed);
  topology = parsed;
  return nullptr;
}

}  // namespace near
