#include "designs/numalloc/metadata.h"

#include "base/bits.h"
#include "platform/os.h"

namespace near::design::numalloc {

void* Metadata::take(size_t bytes) {
  constexpr size_t kStep = 64 * kKiB;  // the largest page there is
  constexpr size_t kLine = 64;
  const LockGuard guard(lock_);
  bytes = align_up(bytes, kLine);
  if (bytes > size_ - used_) return nullptr;
  const size_t mark = committed_.load(kRelaxed);  // relaxed: changed under the lock
  if (used_ + bytes > mark) {
    const size_t more = min_of(align_up(used_ + bytes - mark, kStep), size_ - mark);
    if (!os::commit(reinterpret_cast<void*>(start_ + mark), more)) return nullptr;
    committed_.store(mark + more, kRelaxed);  // relaxed: changed under the lock
  }
  void* taken = reinterpret_cast<void*>(start_ + used_);
  used_ += bytes;
  return taken;
}

}  // namespace near::design::numalloc
