// memcpy, memmove and memset: the copy itself, and the accesses that it makes.
//
// The engine's own copies, also those that the compiler makes, have other names (host_names.h).
#include <cstddef>

#include "runtime/interposed.h"

extern "C" {

__attribute__((visibility("hidden"))) void* near_manycore_memcpy(void* to, const void* from,
                                                                 size_t bytes) {
  void* const result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return result;
}

__attribute__((visibility("hidden"))) void* near_manycore_memmove(void* to, const void* from,
                                                                  size_t bytes) {
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  if (target <= source || target >= source + bytes) return near_manycore_memcpy(to, from, bytes);
  target += bytes - 1;
  source += bytes - 1;
  asm volatile("std\n\trep movsb\n\tcld" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
  return to;
}

__attribute__((visibility("hidden"))) void* near_manycore_memset(void* to, int value,
                                                                 size_t bytes) {
  void* const result = to;
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return result;
}

}  // extern "C"

namespace near::manycore {
namespace {

void copies(const void* to, const void* from, size_t bytes, const void* site) {
  if (!simulated) return;
  access(from, bytes, Access::kRead, site);
  access(to, bytes, Access::kWrite, site);
}

}  // namespace

NEAR_INTERPOSED void* interposed_memcpy(void* to, const void* from, size_t bytes) asm("memcpy");
NEAR_INTERPOSED void* interposed_memmove(void* to, const void* from, size_t bytes) asm("memmove");
NEAR_INTERPOSED void* interposed_memset(void* to, int value, size_t bytes) asm("memset");

NEAR_INTERPOSED void* interposed_memcpy(void* to, const void* from, size_t bytes) {
  copies(to, from, bytes, NEAR_SITE);
  return near_manycore_memcpy(to, from, bytes);
}
NEAR_INTERPOSED void* interposed_memmove(void* to, const void* from, size_t bytes) {
  copies(to, from, bytes, NEAR_SITE);
  return near_manycore_memmove(to, from, bytes);
}
NEAR_INTERPOSED void* interposed_memset(void* to, int value, size_t bytes) {
  if (simulated) access(to, bytes, Access::kWrite, NEAR_SITE);
  return near_manycore_memset(to, value, bytes);
}

}  // namespace near::manycore
