#include "audit_pages.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bound_pages.h"

namespace numa_guest {
namespace {

constexpr size_t kMostPages = size_t{1} << 20;  // of all blocks of an audit

using NodeOf = int (*)(const void*);

NodeOf node_of() {
  static const auto found = reinterpret_cast<NodeOf>(dlsym(RTLD_DEFAULT, "near_node_of"));
  return found;
}

// Distances by node and node; 0 where either has no memory. Read once, before threads start.
std::array<std::array<int, kMostNodes>, kMostNodes> distances;
std::array<int, kMostNodes> least;  // from each node to another one

void read_distances() {
  const std::string folder = "/sys/devices/system/node/";
  const std::vector<unsigned> online = numbers_in(folder + "online");
  const std::vector<unsigned> memory = nodes_with_memory();
  for (const unsigned node : online) {
    std::ifstream row(folder + "node" + std::to_string(node) + "/distance");
    for (const unsigned other : online) {
      int distance = 0;
      row >> distance;
      if (!std::binary_search(memory.begin(), memory.end(), other)) continue;
      distances[node][other] = distance;
      int& nearest = least[node];
      if (other != node && (nearest == 0 || distance < nearest)) nearest = distance;
    }
  }
}

// Where the kernel placed these pages.
void locate(void** pages, size_t count, int* nodes) {
  if (syscall(SYS_move_pages, 0, count, pages, nullptr, nodes, 0) != 0) {
    fail(1, "move_pages was refused");
  }
}

}  // namespace

void fail(int status, const char* message) {
  std::fprintf(stderr, "audit: %s\n", message);
  std::exit(status);
}

Block marked(void* address, size_t size, int home, unsigned char mark) {
  if (address == nullptr) fail(1, "out of memory");
  auto* const bytes = static_cast<unsigned char*>(address);
  std::memset(bytes, mark, size);
  return {bytes, size, home, mark};
}

void check_mark(const Block& block) {
  const unsigned char* const bytes = block.address;
  const bool same = std::memcmp(bytes, bytes + 1, block.size - 1) == 0;
  if (!same || bytes[0] != block.mark) fail(3, "a block was damaged");
}

uint64_t next_random(uint64_t& state) {
  state = state * 6364136223846793005 + 1442695040888963407;
  return state >> 33;
}

size_t free_half(Block* blocks, size_t count, uint64_t& random) {
  size_t left = 0;
  for (size_t i = 0; i < count; ++i) {
    if (next_random(random) % 2 == 0) {
      blocks[left++] = blocks[i];
    } else {
      check_mark(blocks[i]);
      std::free(blocks[i].address);
    }
  }
  return left;
}

near_stats allocator_stats() {
  near_stats stats{};
  if (void* const get = dlsym(RTLD_DEFAULT, "near_get_stats")) {
    reinterpret_cast<void (*)(near_stats*)>(get)(&stats);
  }
  return stats;
}

bool allocator_believes() { return node_of() != nullptr; }

int believed_node(const void* block) { return allocator_believes() ? node_of()(block) : kNone; }

int kernel_node(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address) / kPage * kPage;
  auto* page = reinterpret_cast<void*>(at);
  int node = kNone;
  locate(&page, 1, &node);
  return node;
}

Audit::Audit() : pages_(table<Page>(kMostPages)), nodes_(table<int>(kMostPages)) {
  read_distances();
}

bool Audit::is_far(int node, int home) const {
  const auto from = static_cast<size_t>(home), to = static_cast<size_t>(node);
  return to >= kMostNodes || distances[from][to] > least[from];
}

void Audit::add(const Block& block) {
  check_mark(block);
  const int believed = believed_node(block.address);
  ++counts_.blocks;
  if (allocator_believes() && believed != block.home) {
    ++counts_.blocks_away;
    if (is_far(believed, block.home)) ++counts_.blocks_far;
  }
  const auto first = reinterpret_cast<uintptr_t>(block.address) / kPage * kPage;
  const auto end = reinterpret_cast<uintptr_t>(block.address) + block.size;
  for (uintptr_t page = first; page < end; page += kPage) {
    if (count_ == kMostPages) fail(1, "too many pages");
    pages_[count_++] = {page, believed, block.home};
  }
}

void Audit::ask_kernel() {
  constexpr size_t kAtATime = 1024;
  for (size_t done = 0; done < count_; done += kAtATime) {
    std::array<void*, kAtATime> addresses{};
    const size_t some = std::min(kAtATime, count_ - done);
    for (size_t i = 0; i < some; ++i) {
      addresses[i] = reinterpret_cast<void*>(pages_[done + i].address);
    }
    locate(addresses.data(), some, nodes_ + done);
  }
}

void Audit::finish() {
  std::sort(pages_, pages_ + count_);
  count_ = static_cast<size_t>(std::unique(pages_, pages_ + count_) - pages_);
  ask_kernel();
  ++counts_.audits;
  counts_.pages += count_;
  for (size_t i = 0; i < count_; ++i) {
    const int home = pages_[i].home;
    const int expected = allocator_believes() ? pages_[i].believed : home;
    if (nodes_[i] < 0) {
      ++counts_.not_present;
      continue;
    }
    ++(nodes_[i] == expected ? counts_.agree : counts_.wrong);
    if (nodes_[i] == home) continue;
    ++counts_.pages_away;
    if (is_far(nodes_[i], home)) ++counts_.pages_far;
  }
  count_ = 0;
}

void Audit::print() const {
  std::printf(
      "\"believes\": %s, \"audits\": %zu, \"blocks\": %zu, \"blocks_away\": %zu, "
      "\"blocks_far\": %zu, \"pages\": %zu, \"agree\": %zu, \"wrong\": %zu, "
      "\"not_present\": %zu, \"pages_away\": %zu, \"pages_far\": %zu",
      allocator_believes() ? "true" : "false", counts_.audits, counts_.blocks, counts_.blocks_away,
      counts_.blocks_far, counts_.pages, counts_.agree, counts_.wrong, counts_.not_present,
      counts_.pages_away, counts_.pages_far);
}

}  // namespace numa_guest
