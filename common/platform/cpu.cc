#include "platform/cpu.h"

#include <sched.h>

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

// glibc 2.35 and later register rseq for every thread and export the place of its area. The symbols
// are weak, so that linking with an older glibc is no error.
extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace near {
namespace {

struct RseqHead {  // the kernel's struct rseq, first words (linux/rseq.h)
  uint32_t cpu_id_start;
  uint32_t cpu_id;
};

}  // namespace

unsigned current_cpu() {
  if (&__rseq_size != nullptr && __rseq_size != 0) {
    const auto* area = reinterpret_cast<const volatile RseqHead*>(
        static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
    const auto cpu = static_cast<int32_t>(area->cpu_id);
    if (cpu >= 0) return static_cast<unsigned>(cpu);
  }
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<unsigned>(cpu);
}

}  // namespace near
