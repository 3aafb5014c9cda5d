#include "acdc_set.h"

namespace acdc {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLinks = 2 * sizeof(uint64_t);
constexpr uint64_t kAddressMask = (uint64_t{1} << 48) - 1;
constexpr size_t kDeepest = 64;

struct Links {
  uint64_t first, second;
};

uint64_t link_to(const Set& set, size_t index) {
  const uint64_t address =
      index < set.count ? reinterpret_cast<uintptr_t>(set.objects[index].block.address) : 0;
  return uint64_t{set.tag} << 48 | (address & kAddressMask);
}

// The subtree that begins at `index` has `nodes` nodes: itself, then the left half, then the right.
size_t left_half(size_t nodes) { return nodes / 2; }

// Calls visit(index, links) for every object, in order of allocation.
template <typename Visit>
void for_every_object(const Set& set, Visit visit) {
  if (set.is_list) {
    for (size_t i = 0; i < set.count; ++i)
      visit(i, Links{link_to(set, i + 1), link_to(set, set.count)});
    return;
  }
  struct Part {
    size_t index, nodes;
  } parts[kDeepest];
  size_t depth = 0;
  parts[depth++] = {0, set.count};
  while (depth != 0) {
    const auto [index, nodes] = parts[--depth];
    const size_t left = left_half(nodes), right = nodes - 1 - left;
    visit(index, Links{link_to(set, left == 0 ? set.count : index + 1),
                       link_to(set, right == 0 ? set.count : index + 1 + left)});
    if (right != 0) parts[depth++] = {index + 1 + left, right};
    if (left != 0) parts[depth++] = {index + 1, left};
  }
}

Links links_of(const char* address) {
  Links links;
  std::memcpy(&links, address, sizeof links);
  return links;
}

// Writes a byte in every cache line between the links and the stamp at the end.
void fill(const workload::Block& block) {
  for (size_t at = kLine; at + workload::kStampedEnd < block.size; at += kLine)
    block.address[at] = static_cast<char>(at);
}

void read_lines(const char* address, size_t size) {
  for (size_t at = kLine; at + workload::kStampedEnd < size; at += kLine) {
    const char byte = address[at];
    asm volatile("" : : "r"(byte));
  }
}

// The address in a link. The asm hides it, so the compiler must use the value that was read.
const char* follow(uint64_t link) {
  uint64_t address = link & kAddressMask;
  asm volatile("" : "+r"(address));
  return reinterpret_cast<const char*>(address);
}

bool is_of(const Set& set, const Links& links) {
  return links.first >> 48 == set.tag && links.second >> 48 == set.tag;
}

}  // namespace

void Set::link() {
  for_every_object(*this, [&](size_t index, const Links& links) {
    Object& object = objects[index];
    const Links stamps = links_of(object.block.address);
    object.first = stamps.first;
    object.second = stamps.second;
    std::memcpy(object.block.address, &links, kLinks);
    fill(object.block);
  });
}

size_t Set::read() const { return is_list ? read_list() : read_tree(); }

size_t Set::read_list() const {
  const size_t size = objects[0].block.size;
  const char* address = objects[0].block.address;
  size_t visited = 0;
  for (; address != nullptr && visited < count; ++visited) {
    const Links links = links_of(address);
    if (!is_of(*this, links)) break;
    read_lines(address, size);
    address = follow(links.first);
  }
  return visited;
}

size_t Set::read_tree() const {
  const size_t size = objects[0].block.size;
  const char* waiting[kDeepest];
  size_t depth = 0, visited = 0;
  waiting[depth++] = objects[0].block.address;
  while (depth != 0 && visited < count) {
    const char* const address = waiting[--depth];
    const Links links = links_of(address);
    if (!is_of(*this, links) || depth + 2 > kDeepest) break;
    read_lines(address, size);
    ++visited;
    if (const char* const left = follow(links.first)) waiting[depth++] = left;
    if (const char* const right = follow(links.second)) waiting[depth++] = right;
  }
  return visited;
}

void Set::unlink() {
  for_every_object(*this, [&](size_t index, const Links& links) {
    const Object& object = objects[index];
    const Links found = links_of(object.block.address);
    if (found.first != links.first || found.second != links.second) return;
    const Links stamps{object.first, object.second};
    std::memcpy(object.block.address, &stamps, kLinks);
  });
}

}  // namespace acdc
