#include "platform/fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/saved_errno.h"

namespace near {
namespace {

bool membarrier(int command) {
  const SavedErrno saved;
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

bool register_membarrier() { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

bool heavy_fence(bool asymmetric) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs: asymmetric-fence
  return !asymmetric || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace near
