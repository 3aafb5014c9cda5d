// The malloc family as a type: what a test may call from any provider. A provider is a struct
// that satisfies `MallocApi`; the build names the header that lists the providers of a program
// (`ApisUnderTest`).
// Invariant: every call goes through a volatile pointer, so the compiler neither folds a call nor
// believes its attributes.
// Thread-safety: any thread may read it; no thread writes it.
#pragma once

#include <malloc.h>

#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace near_test {

using Mallinfo = struct mallinfo;
using Mallinfo2 = struct mallinfo2;

template <typename Api>
concept MallocApi = requires(void* block, void** out, size_t size, int number, FILE* stream) {
  { Api::kName } -> std::convertible_to<const char*>;
  { Api::malloc(size) } -> std::same_as<void*>;
  { Api::calloc(size, size) } -> std::same_as<void*>;
  { Api::realloc(block, size) } -> std::same_as<void*>;
  { Api::reallocarray(block, size, size) } -> std::same_as<void*>;
  { Api::free(block) } -> std::same_as<void>;
  { Api::free_sized(block, size) } -> std::same_as<void>;
  { Api::free_aligned_sized(block, size, size) } -> std::same_as<void>;
  { Api::aligned_alloc(size, size) } -> std::same_as<void*>;
  { Api::posix_memalign(out, size, size) } -> std::same_as<int>;
  { Api::memalign(size, size) } -> std::same_as<void*>;
  { Api::valloc(size) } -> std::same_as<void*>;
  { Api::pvalloc(size) } -> std::same_as<void*>;
  { Api::malloc_usable_size(block) } -> std::same_as<size_t>;
  { Api::malloc_trim(size) } -> std::same_as<int>;
  { Api::mallopt(number, number) } -> std::same_as<int>;
  { Api::mallinfo() } -> std::same_as<Mallinfo>;
  { Api::mallinfo2() } -> std::same_as<Mallinfo2>;
  { Api::malloc_stats() } -> std::same_as<void>;
  { Api::malloc_info(number, stream) } -> std::same_as<int>;
};

// The members of a provider whose functions all have one prefix, except the two of C23.
#define NEAR_TEST_API_MEMBERS(prefix)                                                              \
  static inline void* (*volatile malloc)(size_t) = ::prefix##malloc;                               \
  static inline void* (*volatile calloc)(size_t, size_t) = ::prefix##calloc;                       \
  static inline void* (*volatile realloc)(void*, size_t) = ::prefix##realloc;                      \
  static inline void* (*volatile reallocarray)(void*, size_t, size_t) = ::prefix##reallocarray;    \
  static inline void (*volatile free)(void*) = ::prefix##free;                                     \
  static inline void* (*volatile aligned_alloc)(size_t, size_t) = ::prefix##aligned_alloc;         \
  static inline int (*volatile posix_memalign)(void**, size_t, size_t) = ::prefix##posix_memalign; \
  static inline void* (*volatile memalign)(size_t, size_t) = ::prefix##memalign;                   \
  static inline void* (*volatile valloc)(size_t) = ::prefix##valloc;                               \
  static inline void* (*volatile pvalloc)(size_t) = ::prefix##pvalloc;                             \
  static inline size_t (*volatile malloc_usable_size)(void*) = ::prefix##malloc_usable_size;       \
  static inline int (*volatile malloc_trim)(size_t) = ::prefix##malloc_trim;                       \
  static inline int (*volatile mallopt)(int, int) = ::prefix##mallopt;                             \
  static inline Mallinfo (*volatile mallinfo)() = ::prefix##mallinfo;                              \
  static inline Mallinfo2 (*volatile mallinfo2)() = ::prefix##mallinfo2;                           \
  static inline void (*volatile malloc_stats)() = ::prefix##malloc_stats;                          \
  static inline int (*volatile malloc_info)(int, FILE*) = ::prefix##malloc_info

}  // namespace near_test
