#include "platform/helper.h"

#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "platform/affinity.h"

namespace near {
namespace {

constexpr unsigned kWords = _LINUX_CAPABILITY_U32S_3;
using Capabilities = __user_cap_data_struct[kWords];

// The C library applies setuid and setgid to all threads of the process, and aborts if a thread is
// refused where another was allowed. So these two stay until the main thread gives them up.
constexpr uint32_t kKept = 1U << CAP_SETUID | 1U << CAP_SETGID;
static_assert(CAP_SETUID < 32 && CAP_SETGID < 32);

bool read_capabilities(pid_t thread, Capabilities& found) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, thread};
  return syscall(SYS_capget, &header, found) == 0;
}

// Takes all capabilities except `kept` (a mask of the first 32) from the calling thread. Returns
// true if the thread has some left.
bool keep_capabilities(uint32_t kept) {
  Capabilities own = {};
  if (!read_capabilities(0, own)) return false;
  bool changed = false;
  bool left = false;
  for (unsigned i = 0; i < kWords; i++) {
    uint32_t* const sets[] = {&own[i].effective, &own[i].permitted, &own[i].inheritable};
    for (uint32_t* set : sets) {
      const uint32_t before = *set;
      *set &= i == 0 ? kept : 0;
      changed = changed || *set != before;
      left = left || *set != 0;
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  if (changed) syscall(SYS_capset, &header, own);
  return left;
}

void schedule_normally() {
  const int policy = sched_getscheduler(0);
  const struct sched_param none{};
  if (policy > SCHED_OTHER) sched_setscheduler(0, SCHED_OTHER, &none);
}

}  // namespace

bool is_main_thread() { return syscall(SYS_gettid) == getpid(); }

bool become_helper(const char* name, bool stray) {
  prctl(PR_SET_NAME, name);
  schedule_normally();
  if (stray) Affinity().spread();
  return keep_capabilities(kKept);
}

bool follow_capabilities() {
  Capabilities of_main = {};
  if (!read_capabilities(getpid(), of_main)) return false;
  return keep_capabilities(kKept & of_main[0].permitted);
}

}  // namespace near
