#include "front/invalid.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "base/bits.h"
#include "base/compiler.h"
#include "node/memory.h"
#include "platform/message.h"
#include "platform/options.h"
#include "platform/os.h"
#include "platform/saved_errno.h"
#include "span/span.h"

namespace near {
namespace {

// Says of a pointer into our memory what lies there.
void describe(const void* pointer) {
  const Span* span = enclosing_span(pointer);
  if (span == nullptr) return;
  switch (span->kind) {
    case SpanKind::blocks: {
      const uint32_t size = span->shape().size;
      const auto offset =
          static_cast<size_t>(static_cast<const char*>(pointer) - span->start) % size;
      message("  it is %zu bytes into a block of %u bytes at %p", offset, size,
              static_cast<const void*>(static_cast<const char*>(pointer) - offset));
      return;
    }
    case SpanKind::large:
      message("  it is inside a block of %zu bytes at %p", span->asked,
              static_cast<void*>(span->start));
      return;
    case SpanKind::none:
    case SpanKind::inside:
      message("  it lies in memory of this allocator that holds no live block");
      return;
  }
}

bool is_mapped(const void* pointer) {
  const SavedErrno saved;
  unsigned char resident = 0;
  const auto page = align_down(reinterpret_cast<uintptr_t>(pointer), os::page_size());
  return mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

bool is_on_this_stack(const void* pointer) {
  constexpr uintptr_t kReach = 16 * kMiB;  // above a frame of ours: the rest of any usual stack
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return reinterpret_cast<uintptr_t>(pointer) - here < kReach;
}

// True if the pointer could be a block of another allocator in this process.
bool may_be_another_allocators(const void* pointer) {
  Dl_info object;
  return reinterpret_cast<uintptr_t>(pointer) % kBlockAlign == 0 && is_mapped(pointer) &&
         !is_on_this_stack(pointer) && dladdr(pointer, &object) == 0;
}

// The function of that name that is not ours: that of the next library that has one.
void* other(const char* name) { return dlsym(RTLD_NEXT, name); }

}  // namespace

NEAR_COLD void report_invalid(const void* pointer, const char* what) {
  const auto reaction = static_cast<OnInvalid>(option(Option::invalid));
  if (reaction == OnInvalid::ignore) return;
  message("invalid free of %p: %s", pointer, what);
  describe(pointer);
  if (reaction == OnInvalid::abort) abort();
}

NEAR_COLD void release_foreign(void* pointer) {
  if (may_be_another_allocators(pointer)) {
    const auto free = reinterpret_cast<void (*)(void*)>(other("free"));
    if (free != nullptr) return free(pointer);
  }
  report_invalid(pointer, "it is not a block of this allocator");
}

NEAR_COLD void* reallocate_foreign(void* pointer, size_t size) {
  if (may_be_another_allocators(pointer)) {
    const auto realloc = reinterpret_cast<void* (*)(void*, size_t)>(other("realloc"));
    if (realloc != nullptr) return realloc(pointer, size);
  }
  report_invalid(pointer, "realloc of what is not a block of this allocator");
  errno = ENOMEM;
  return nullptr;
}

}  // namespace near
