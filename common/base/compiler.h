// Names for compiler features, so that no other layer needs a conditional.
// Thread-safety: any code; nothing here has state.
#pragma once

#include <cstddef>
#include <cstdint>

#define NEAR_NOINLINE __attribute__((noinline))
#define NEAR_COLD __attribute__((noinline, cold))
#define NEAR_INLINE inline __attribute__((always_inline))
#define NEAR_EXPORT __attribute__((visibility("default")))
#define NEAR_HIDDEN \
  __attribute__((visibility("hidden")))  // on variables: read without a detour through the GOT
#define NEAR_TLS_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

#ifndef NEAR_CHECK
#define NEAR_CHECK 0
#endif

#if defined(__SANITIZE_THREAD__)
#define NEAR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NEAR_TSAN 1
#endif
#endif
#ifndef NEAR_TSAN
#define NEAR_TSAN 0
#endif

namespace near {

inline constexpr bool kCheckBuild = NEAR_CHECK != 0;

NEAR_INLINE bool likely(bool condition) { return __builtin_expect(condition, true); }
NEAR_INLINE bool unlikely(bool condition) { return __builtin_expect(condition, false); }

// Fetches a cache line that will be written. Any address is allowed. GCC makes prefetchw of its
// builtin only for processors that must have it; those that do not have it ignore it.
NEAR_INLINE void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// A pause in a spin loop: lets the sibling hyper-thread run.
NEAR_INLINE void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace near
