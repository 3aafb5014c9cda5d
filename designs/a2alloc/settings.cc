#include "designs/a2alloc/settings.h"

namespace near::design::a2alloc {

Settings settings;

namespace {

enum : unsigned { kMetadata, kPageref, kFree, kEmptiness };

Switch table[] = {
    {"metadata", "page|block", 0, 0, 1, "where heap and class are written"},
    {"pageref", "apart|head", 0, 0, 1, "where a page's reference is"},
    {"free", "constant|walk", 0, 0, 1, "how a page with room, and a block's page, are found"},
    {"emptiness", nullptr, 0, 0, 99,
     "per cent of a heap and of a page that must be free for the page to go to all; 0: off"},
};

}  // namespace

std::span<Switch> switches() {
  return kVariant.per_processor ? std::span<Switch>(table) : std::span<Switch>();
}

void apply_switches() {
  settings = {.block_metadata = table[kMetadata].value != 0,
              .pageref_in_page = table[kPageref].value != 0,
              .walk = table[kFree].value != 0,
              .emptiness = static_cast<unsigned>(table[kEmptiness].value)};
}

}  // namespace near::design::a2alloc
