// The commands of fuzz_api that inspect, that change the process, and that are a program's errors.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/api_calls.h"
#include "fuzz/api_player.h"
#include "platform/options.h"
#include "support/fake_os.h"

namespace near_test::fuzz {
namespace {

using near::kOptionTable;
using near::OptionInfo;

// What `write` writes to a stream.
template <typename Write>
std::string written_by(Write write) {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  demand(write(stream) == 0, "statistics cannot be written");
  std::fclose(stream);
  std::string result(text, length);
  std::free(text);
  return result;
}

void expect_balanced(const std::string& text, char open, char close) {
  long depth = 0;
  for (const char letter : text) {
    depth += letter == open ? 1 : letter == close ? -1 : 0;
    demand(depth >= 0, "unbalanced: %s", text.c_str());
  }
  demand(depth == 0 && text.size() > 20, "unbalanced: %s", text.c_str());
}

near_stats totals() {
  near_stats stats;
  near_get_stats(&stats);
  return stats;
}

void expect_mallinfo(const near_stats& stats) {
  const struct mallinfo2 wide = near_mallinfo2();
  demand(wide.arena + wide.hblkhd == stats.committed && wide.hblks == stats.large_blocks &&
             wide.hblkhd == stats.large && wide.uordblks + wide.fordblks == wide.arena &&
             wide.uordblks + wide.hblkhd == stats.in_spans && wide.keepcost == stats.dirty,
         "mallinfo2 says something else than near_get_stats");
  const struct mallinfo narrow = near_mallinfo();
  demand(narrow.arena == static_cast<int>(std::min<size_t>(wide.arena, INT_MAX)), "mallinfo");
}

void expect_nodes(const near_stats& stats) {
  near_stats sums{};
  for (unsigned n = 0; n < stats.nodes; n++) {
    near_node_stats node;
    demand(near_get_node_stats(n, &node) == 0, "node %u has no statistics", n);
    sums.committed += node.committed;
    sums.in_spans += node.in_spans;
    sums.dirty += node.dirty;
    std::vector<uint64_t> freed(stats.nodes);
    demand(near_get_freed(n, freed.data()) == 0, "node %u has no frees", n);
  }
  demand(sums.committed == stats.committed && sums.in_spans == stats.in_spans &&
             sums.dirty == stats.dirty,
         "the nodes' statistics do not add up");
  near_node_stats none;
  uint64_t freed = 0;
  demand(near_get_node_stats(stats.nodes, &none) == EINVAL, "a node too many has statistics");
  demand(near_get_freed(stats.nodes, &freed) == EINVAL, "a node too many has frees");
}

}  // namespace

void Player::make_heap() {
  Bound& bound = heaps_[bytes_.below(kHeaps)];
  const bool interleaved = bytes_.below(3) == 0;
  const int node = interleaved ? -1 : draw_node();
  const unsigned flags = interleaved ? 0 : draw_flags();
  note("  of node %d, flags %u", node, flags);
  destroy(bound);
  errno = 0;
  near_heap* heap =
      interleaved ? near_heap_create_interleaved() : near_heap_create_on_node(node, flags);
  const bool is_wrong = !interleaved && (node < 0 || node >= world().nodes || flags > NEAR_STRICT);
  if (is_wrong) {
    demand(heap == nullptr && errno == EINVAL, "a heap of node %d", node);
    return;
  }
  if (heap == nullptr) demand(errno == ENOMEM && table_.may_refuse(), "no heap, errno %d", errno);
  bound = {heap, node, flags};
}

void Player::destroy(Bound& bound) {
  near_heap_destroy(bound.heap);
  bound = Bound{};
}

void Player::end_heap() { destroy(heaps_[bytes_.below(kHeaps)]); }

void Player::trim() {
  const size_t pad = bytes_.below(2) == 0 ? 0 : bytes_.u16() * size_t{256};
  const int released = near_malloc_trim(pad);
  note("  pad %zu: %d", pad, released);
  demand(released == 0 || released == 1, "trim says %d", released);
}

// Excludes the options that start threads, print, or take all memory.
void Player::change_option() {
  const OptionInfo& info = kOptionTable[bytes_.below(near::kOptions)];
  const std::string name = info.name;
  const long values[] = {info.lowest - 1, info.lowest, info.initial, info.highest,
                         info.highest + 1};
  const long value = values[bytes_.below(std::size(values))];
  if (name == "purge_thread" || name == "stats" || name == "invalid" || name == "populate_mib") {
    return;
  }
  note("  %s = %ld", info.name, value);
  long before = 0;
  long after = 0;
  demand(near_get_option(info.name, &before) == 0, "no option %s", info.name);
  const int error = near_set_option(info.name, value);
  const bool good = value >= info.lowest && value <= info.highest;
  demand(error == (good ? 0 : EINVAL), "%s = %ld gives %d", info.name, value, error);
  near_get_option(info.name, &after);
  demand(after == (good ? value : before), "%s is %ld", info.name, after);
  demand(near_set_option("none", 1) == EINVAL, "an option without a name");
  demand(near_get_option("none", &after) == EINVAL, "an option without a name");
}

void Player::look_at_block() {
  const Slot& slot = table_.at(draw_slot());
  const size_t offset = bytes_.u16();
  char outside = 0;
  demand(near_owns(&outside) == 0 && near_owns(nullptr) == 0, "foreign memory is owned");
  demand(near_node_of(&outside) == -1, "foreign memory has a node");
  demand(near_malloc_usable_size(nullptr) == 0, "NULL has a usable size");
  if (slot.start == nullptr) return;
  const char* inside = slot.start + offset % slot.usable;
  note("  at %p + %zu", static_cast<void*>(slot.start), offset % slot.usable);
  demand(near_owns(inside) == 1, "the inside of a block is not owned");
  demand(near_node_of(inside) == near_node_of(slot.start), "a block on two nodes");
  near_placement placement;
  near_sample_placement(offset % 100, &placement);
}

void Player::look_at_statistics() {
  const near_stats stats = totals();
  demand(static_cast<int>(stats.nodes) == world().nodes, "%u nodes", stats.nodes);
  demand(stats.in_spans >= table_.live_bytes(), "more is live than in spans");
  demand(stats.committed >= stats.in_spans + stats.dirty, "more is in spans than committed");
  demand(stats.reserved >= stats.committed, "more is committed than reserved");
  switch (bytes_.below(4)) {
    case 0:
      expect_mallinfo(stats);
      return expect_nodes(stats);
    case 1:
      return expect_balanced(written_by([](FILE* to) { return near_stats_json(to); }), '{', '}');
    case 2:
      return expect_balanced(written_by([](FILE* to) { return near_malloc_info(0, to); }), '<',
                             '>');
    default:
      demand(near_stats_json(nullptr) == EINVAL, "statistics without a stream");
      demand(near_malloc_info(1, stderr) == EINVAL, "statistics with an option");
      demand(near_mallopt(M_MXFAST, 1) == 1 && near_mallopt(INT_MIN, 0) == 0, "mallopt");
      demand(std::strlen(near_version()) >= 5, "no version");
  }
}

void Player::check() {
  demand(near_check() == 0, "near_check finds damage");
  table_.expect_patterns();
}

void Player::move_to_cpu() { set_cpu(bytes_.u8() % 16); }

void Player::hand_over() {
  turn_ = bytes_.below(kThreads);
  handed_ = true;
}

// The turn goes back to the first one, which never ends.
void Player::end_thread() {
  ends_ = turn_ != 0;
  turn_ = 0;
  handed_ = true;
}

void Player::refuse() {
  const auto kind = static_cast<OsCall>(bytes_.below(kOsCalls + 1));
  const uint64_t nth = 1 + bytes_.below(16);
  const bool forever = bytes_.below(2) != 0;
  note("  %s: call %zu%s", name_of(kind), static_cast<size_t>(nth), forever ? " and later" : "");
  fake_os::fail(kind, nth, forever);
  table_.allow_refusal();
}

void Player::limit() {
  const bool commit = bytes_.below(2) != 0;
  const size_t more = bytes_.u8() * size_t{65'536};
  note("  %s: %zu more", commit ? "committed" : "reserved", more);
  if (commit) {
    fake_os::set_commit_limit(fake_os::committed_bytes() + more);
  } else {
    const size_t bytes = fake_os::reserved_bytes() + more;
    fake_os::set_address_space_limit(std::min(bytes, world().address_space));
  }
  table_.allow_refusal();
}

void Player::end_refusals() {
  fake_os::fail_none();
  fake_os::set_commit_limit(SIZE_MAX);
  fake_os::set_address_space_limit(world().address_space);
}

// A heap is also a block, which the table does not know.
bool Player::is_of_heap(const char* block) const {
  return std::any_of(std::begin(heaps_), std::end(heaps_), [block](const Bound& bound) {
    const auto* start = reinterpret_cast<const char*>(bound.heap);
    return start != nullptr && block >= start &&
           block < start + near_malloc_usable_size(bound.heap);
  });
}

// With checks every one of these is recognised, and with the option `invalid` at `ignore` nothing
// happens then.
void Player::misuse() {
  const size_t which = bytes_.below(3);
  const Slot& slot = table_.at(draw_slot());
  const size_t offset = bytes_.u16();
  char* wrong = table_.freed(offset);
  if (which != 0) wrong = slot.start == nullptr ? nullptr : slot.start + offset % slot.usable;
  const bool is_wrong =
      wrong != nullptr && (which != 0 ? wrong != slot.start : table_.is_free(wrong));
  if (!is_wrong || near_owns(wrong) == 0 || is_of_heap(wrong)) return;
  note("  %s %p", which == 0 ? "free again" : "inside a block", static_cast<void*>(wrong));
  errno = 77;
  if (which == 2) {
    demand(near_realloc(wrong, 1 + offset) == nullptr && errno == ENOMEM, "half a block grows");
    demand(near_malloc_usable_size(wrong) == 0, "half a block has a usable size");
    return;
  }
  if (offset % 3 == 0) {
    near_free_batch(reinterpret_cast<void**>(&wrong), 1);
  } else {
    near_free(wrong);
  }
  demand(errno == 77, "a wrong free changed errno");
}

}  // namespace near_test::fuzz
