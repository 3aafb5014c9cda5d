#include "platform/address.h"

#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/bits.h"
#include "platform/find_object.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

// Frames further up are not recognised: a free of them is left to the C library's own checks.
constexpr uintptr_t kReach = 16 * kMiB;

}  // namespace

// The kernel reads the new signal mask before it rejects the invalid operation: EFAULT means that
// the address is unreadable. mincore answers the same question but takes several times as long:
// docs/decisions/0015-interposition.md.
bool is_readable(const void* address) {
  constexpr int kNoSuchChange = -1;
  constexpr size_t kMaskBytes = 8;
  if (address == nullptr) return false;  // the call does not read what null points to
  const SavedErrno saved;
  syscall(SYS_rt_sigprocmask, kNoSuchChange, address, nullptr, kMaskBytes);
  return errno != EFAULT;
}

bool is_in_loaded_object(const void* address) {
#if NEAR_HAS_FIND_OBJECT
  if (&_dl_find_object != nullptr) {
    dl_find_object found;
    return _dl_find_object(const_cast<void*>(address), &found) == 0;
  }
#endif
  Dl_info object;
  return dladdr(address, &object) != 0;
}

bool find_loaded_file(uintptr_t address, LoadedFile& out) {
#if NEAR_HAS_FIND_OBJECT
  if (&_dl_find_object != nullptr) {
    dl_find_object found;
    if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
    out.start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
    out.end = reinterpret_cast<uintptr_t>(found.dlfo_map_end);
    out.base = found.dlfo_link_map->l_addr;
    out.dynamic = found.dlfo_link_map->l_ld;
    out.name = found.dlfo_link_map->l_name;
    return true;
  }
#endif
  return false;
}

bool is_on_this_stack(const void* address) {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const auto there = reinterpret_cast<uintptr_t>(address);
  if (there - here >= kReach) return false;  // stacks grow downward
  // A thread's control block lies at the upper end of its stack, so an address beyond it is not on
  // that stack. (The first thread's control block lies elsewhere.)
  const auto thread = reinterpret_cast<uintptr_t>(pthread_self());
  if (here < thread && thread < there) return false;
  // The remaining cases are rare in a correct program; asking for the bounds of the stack costs a
  // system call or more.
  const SavedErrno saved;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  void* lowest = nullptr;
  size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  const auto start = reinterpret_cast<uintptr_t>(lowest);
  return known && here - start < bytes && there - start < bytes;
}

}  // namespace near
