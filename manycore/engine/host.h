// Calls of the host's kernel, past libc and past the interposed functions.
#pragma once

namespace near::manycore {

// The kernel's result: -errno for an error.
inline long host_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                      long f = 0) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

// A pointer as an argument of host_call.
template <typename T>
long word(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

}  // namespace near::manycore
