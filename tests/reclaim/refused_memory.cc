#include "refused_memory.h"

#include <cerrno>

namespace near_test {
namespace {

thread_local long blocks_left = Refusing::kNever;
thread_local size_t number_of_refusals = 0;

bool refuses() {
  if (blocks_left == 0) {
    ++number_of_refusals;
    return true;
  }
  if (blocks_left > 0) --blocks_left;
  return false;
}

}  // namespace

Refusing::Refusing(long after) {
  blocks_left = after;
  number_of_refusals = 0;
}
Refusing::~Refusing() { blocks_left = kNever; }

size_t refusals() { return number_of_refusals; }

}  // namespace near_test

extern "C" {
void* __real_malloc(size_t size);
int __real_posix_memalign(void** block, size_t alignment, size_t size);

void* __wrap_malloc(size_t size) { return near_test::refuses() ? nullptr : __real_malloc(size); }
int __wrap_posix_memalign(void** block, size_t alignment, size_t size) {
  return near_test::refuses() ? ENOMEM : __real_posix_memalign(block, alignment, size);
}
}
