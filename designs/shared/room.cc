#include "designs/shared/room.h"

#include "base/bits.h"

namespace near::design {

void* Room::take(size_t bytes) {
  bytes = align_up(bytes, size_t{64});
  if (bytes > left_) {
    const size_t more = align_up(bytes, step_);
    auto* fresh = static_cast<char*>(arena_.take(more));
    if (fresh == nullptr) return nullptr;
    if (fresh != next_ + left_) {
      next_ = fresh;
      left_ = 0;
    }
    left_ += more;
  }
  void* taken = next_;
  next_ += bytes;
  left_ -= bytes;
  return taken;
}

}  // namespace near::design
