#include "designs/super/transaction.h"

#include "base/compiler.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace near::design::super::transaction {

#if defined(__x86_64__)

bool supported() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kRtm = 1U << 11;          // in b
  constexpr unsigned kAlwaysFails = 1U << 11;  // in d
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kRtm) != 0 && (d & kAlwaysFails) == 0;
}

__attribute__((target("rtm"), noinline)) bool begin() { return _xbegin() == _XBEGIN_STARTED; }
__attribute__((target("rtm"), noinline)) void commit() { _xend(); }
__attribute__((target("rtm"), noinline)) void abandon() { _xabort(1); }

#else

bool supported() { return false; }
bool begin() { return false; }
void commit() {}
void abandon() {}

#endif

}  // namespace near::design::super::transaction
