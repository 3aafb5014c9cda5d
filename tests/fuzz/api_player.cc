#include "fuzz/api_player.h"

#include <cerrno>

#include "fuzz/api_calls.h"
#include "platform/options.h"
#include "platform/os.h"
#include "support/fake_os.h"

namespace near_test::fuzz {
namespace {

constexpr size_t kCheckEvery = 128;  // commands

}  // namespace

const Player::Command Player::kCommands[] = {
    {"malloc", &Player::allocate},
    {"calloc", &Player::allocate_zeroed},
    {"realloc", &Player::resize},
    {"reallocarray", &Player::resize_array},
    {"aligned_alloc", &Player::allocate_aligned},
    {"posix_memalign", &Player::allocate_posix},
    {"memalign", &Player::allocate_memalign},
    {"pages", &Player::allocate_pages},
    {"on node", &Player::allocate_on_node},
    {"from heap", &Player::allocate_from_heap},
    {"many", &Player::allocate_many},
    {"free", &Player::free_one},
    {"free sized", &Player::free_with_size},
    {"free many", &Player::free_many},
    {"free batch", &Player::free_batch},
    {"heap", &Player::make_heap},
    {"end heap", &Player::end_heap},
    {"trim", &Player::trim},
    {"option", &Player::change_option},
    {"look", &Player::look_at_block},
    {"statistics", &Player::look_at_statistics},
    {"check", &Player::check},
    {"cpu", &Player::move_to_cpu},
    {"hand over", &Player::hand_over},
    {"end thread", &Player::end_thread},
    {"refuse", &Player::refuse},
    {"limit", &Player::limit},
    {"end refusals", &Player::end_refusals},
    {"misuse", &Player::misuse},
};

const World& world() {
  static const World found = [] {
    near_stats stats;
    near_get_stats(&stats);
    long region_mib = 0;
    near_get_option("region_mib", &region_mib);
    const size_t room = static_cast<size_t>(region_mib) << 20;
    return World{static_cast<int>(stats.nodes), room == 0 || room >= 2 * Table::kMostBytes,
                 near::os::limit()};
  }();
  return found;
}

// As many sizes of each magnitude, and those next to a border.
size_t Player::draw_size() {
  static constexpr size_t kBorders[] = {0,
                                        1,
                                        8,
                                        32'768,
                                        32'769,
                                        65'536,
                                        65'537,
                                        (1 << 21) - 1,
                                        1 << 21,
                                        (1 << 21) + 1,
                                        Table::kImpossible,
                                        size_t{1} << 47,
                                        PTRDIFF_MAX,
                                        size_t{PTRDIFF_MAX} + 1,
                                        SIZE_MAX - 15,
                                        SIZE_MAX};
  switch (bytes_.below(8)) {
    case 0:
      return kBorders[bytes_.below(std::size(kBorders))];
    case 1:
      return bytes_.u16() * size_t{64};
    case 2:
      return bytes_.u16() * size_t{8};
    case 3:
      return bytes_.u16();
    case 4:
      return bytes_.u16() % 4096;
    default:
      return bytes_.u8() * size_t{4};
  }
}

size_t Player::draw_alignment() {
  static constexpr size_t kOdd[] = {0,       3, 24, 48, 4097, Table::kImpossible, SIZE_MAX / 2 + 1,
                                    SIZE_MAX};
  constexpr size_t kPowers = 24;  // up to 8 MiB
  const size_t drawn = bytes_.below(kPowers + std::size(kOdd));
  return drawn < kPowers ? size_t{1} << drawn : kOdd[drawn - kPowers];
}

// Sometimes returns one that does not exist.
int Player::draw_node() {
  return static_cast<int>(bytes_.below(static_cast<size_t>(world().nodes) + 2)) - 1;
}

// Sometimes returns one that does not exist.
unsigned Player::draw_flags() { return static_cast<unsigned>(bytes_.below(8) % 5 % 3); }

void Player::free_slot(size_t slot) {
  void* block = table_.remove(slot);
  errno = 77;
  call_free(block);
  demand(errno == 77, "free changed errno");
}

bool Player::make_room(size_t slot, size_t size) {
  if (table_.at(slot).start != nullptr) free_slot(slot);
  errno = 0;
  return table_.has_room(size);
}

void Player::step() {
  const Command& command = kCommands[bytes_.below(std::size(kCommands))];
  note("%zu: %s", turn_, command.name);
  (this->*command.play)();
  if (++steps_ % kCheckEvery == 0) check();
}

void Player::play_turn() {
  handed_ = false;
  while (!bytes_.empty() && !handed_) step();
}

void Player::run() {
  while (!bytes_.empty()) {
    const size_t turn = turn_;
    if (turn == 0) {
      play_turn();
      continue;
    }
    if (workers_[turn] == nullptr) workers_[turn] = std::make_unique<Worker>();
    (*workers_[turn])([this] { play_turn(); });
    if (ends_) workers_[turn].reset();
    ends_ = false;
  }
  turn_ = 0;
  finish();
}

void Player::finish() {
  note("finish");
  end_refusals();
  table_.expect_patterns();
  for (Bound& bound : heaps_) destroy(bound);
  for (size_t slot = 0; slot < Table::kSlots; slot++) {
    if (table_.at(slot).start != nullptr) free_slot(slot);
  }
  for (auto& worker : workers_) worker.reset();
  set_cpu(0);
  // This has to work, whatever was refused before.
  for (const size_t size : {100, 10'000, 100'000, 3'000'000}) {
    void* block = near_malloc(size);
    demand(block != nullptr, "no memory for %zu bytes though nothing is refused", size);
    near_free(block);
  }
  expect_nothing_left();
}

void Player::expect_nothing_left() {
  near_malloc_trim(0);
  demand(near_check() == 0, "near_check finds damage at the end");
  near_stats stats;
  near_get_stats(&stats);
  demand(stats.large == 0 && stats.large_blocks == 0, "large blocks are left");
  demand(stats.in_spans == 0, "%zu bytes of spans are left", static_cast<size_t>(stats.in_spans));
  demand(stats.dirty == 0, "%zu bytes stay resident", static_cast<size_t>(stats.dirty));
}

}  // namespace near_test::fuzz
