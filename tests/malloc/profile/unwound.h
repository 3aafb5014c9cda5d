// A stack, and how the compiler's own unwinder finds the one of the calling thread.
// Thread-safety: any thread.
#pragma once

#include <unwind.h>

#include <cstdint>

namespace near_test {

inline constexpr unsigned kMostFrames = 64;

struct Frames {
  uintptr_t of[kMostFrames];  // the innermost function's first
  unsigned count = 0;
};

inline _Unwind_Reason_Code add_frame(struct _Unwind_Context* context, void* data) {
  auto& frames = *static_cast<Frames*>(data);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || frames.count == kMostFrames) return _URC_END_OF_STACK;
  frames.of[frames.count++] = address;
  return _URC_NO_REASON;
}

// Adds the frames from the calling function on.
[[gnu::always_inline]] inline void unwind(Frames& frames) { _Unwind_Backtrace(add_frame, &frames); }

}  // namespace near_test
