#include "designs/hoard/settings.h"

namespace near::design::hoard {

Settings settings;

namespace {

constexpr unsigned kSmallestShift = 12;

enum : unsigned { kSuperblock, kEmpty, kSlack, kBase, kHeaps };

Switch table[] = {
    {"superblock", "4|8|16|32|64", 1, 0, 4, "S, the size of a superblock in KiB"},
    {"empty", nullptr, 2, 1, kEighths - 1, "8 f: the eighths that must be free to give one up"},
    {"slack", nullptr, 4, 0, 1000, "K, the superblocks that a heap may always keep"},
    {"base", nullptr, 120, 120, 200, "100 b: each size class is about b times the one before"},
    {"heaps", nullptr, 0, 0, 1023, "heaps besides the global one; 0: two for each processor"},
};

}  // namespace

std::span<Switch> switches() { return table; }

void apply_switches() {
  settings = {.superblock_shift = kSmallestShift + static_cast<unsigned>(table[kSuperblock].value),
              .empty_eighths = static_cast<unsigned>(table[kEmpty].value),
              .slack = static_cast<unsigned>(table[kSlack].value),
              .base_percent = static_cast<unsigned>(table[kBase].value),
              .heaps = static_cast<unsigned>(table[kHeaps].value)};
}

}  // namespace near::design::hoard
