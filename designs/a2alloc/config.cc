#include "designs/a2alloc/config.h"

namespace near::a2alloc {

Settings settings;

namespace {

enum : unsigned { kMetadata, kPageref, kFree, kEmptiness };

design::Switch table[] = {
    {"metadata", "page|block", 0, 0, 1, "where heap and class are written"},
    {"pageref", "apart|head", 0, 0, 1, "where a page's reference is"},
    {"free", "constant|walk", 0, 0, 1, "how a page with room, and a block's page, are found"},
    {"emptiness", nullptr, 0, 0, 99,
     "per cent of a heap and of a page that must be free for the page to go to all; 0: off"},
};

}  // namespace

std::span<design::Switch> switches() {
  return kConfig.per_processor ? std::span<design::Switch>(table) : std::span<design::Switch>();
}

void settle() {
  settings = {.block_metadata = table[kMetadata].value != 0,
              .pageref_in_page = table[kPageref].value != 0,
              .walk = table[kFree].value != 0,
              .emptiness = static_cast<unsigned>(table[kEmptiness].value)};
}

}  // namespace near::a2alloc
