#include "shim/new_slow.h"

#include "front/front.h"
#include "shim/cxx_runtime.h"

namespace near {

NEAR_COLD void* new_slow(size_t size, size_t alignment, const void* caller) {
  const CxxRuntime runtime(caller);
  while (true) {
    if (const NewHandler handler = runtime.new_handler()) {
      handler();
    } else {
      runtime.throw_bad_alloc();
    }
    if (void* block = allocate_aligned(alignment, size)) return block;
  }
}

NEAR_COLD void* new_slow_nothrow(size_t size, size_t alignment, const void* caller) {
  const CxxRuntime runtime(caller);
  if (runtime.new_handler() == nullptr) return nullptr;
  if (can_catch()) return new_slow_caught(size, alignment, caller);
  return runtime.new_nothrow(size, alignment);
}

}  // namespace near
