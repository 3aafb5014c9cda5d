#include "designs/super/room.h"

#include "designs/super/chunk_table.h"

namespace near::design::super {
namespace {

char* next = nullptr;
size_t left = 0;

}  // namespace

void* take_room(size_t bytes) {
  bytes = align_up(bytes, kLine);
  if (bytes > left) {
    const size_t more = align_up(bytes, kChunk);
    auto* fresh = static_cast<char*>(arena.take(more));
    if (fresh == nullptr) return nullptr;
    if (fresh != next + left) {
      next = fresh;
      left = 0;
    }
    left += more;
  }
  void* taken = next;
  next += bytes;
  left -= bytes;
  return taken;
}

}  // namespace near::design::super
