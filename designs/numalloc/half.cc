#include "designs/numalloc/half.h"

#include "platform/os.h"

namespace near::design::numalloc {

void* Half::take(size_t bytes, bool (*before_use)(uintptr_t, size_t)) {
  const size_t before = used();
  if (bytes > size_ - before) return nullptr;
  const size_t end = before + bytes;
  const size_t mark = committed();
  if (end > mark) {
    const size_t more = min_of(align_up(end - mark, kStep), size_ - mark);
    if (before_use != nullptr && !before_use(start_ + mark, more)) return nullptr;
    if (!os::commit(reinterpret_cast<void*>(start_ + mark), more)) return nullptr;
    committed_.store(mark + more, kRelaxed);  // relaxed: changed under the owner's lock
  }
  used_.store(end, kRelaxed);  // relaxed: changed under the owner's lock
  return reinterpret_cast<void*>(start_ + before);
}

}  // namespace near::design::numalloc
