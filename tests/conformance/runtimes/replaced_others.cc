// A program that replaces the throwing array forms and the aligned single ones: the forms that
// [new.delete] defines by these call the replacements.
#include <new>

#include "check.h"

namespace {

constexpr std::size_t kHeader = 64;  // keeps blocks aligned to it
int array_calls = 0;
int aligned_calls = 0;
bool refuse = false;

bool counted(int array, int aligned) {
  const bool right = array_calls == array && aligned_calls == aligned;
  array_calls = aligned_calls = 0;
  return right;
}

void* make(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return static_cast<char*>(block) + kHeader;
}

void* start_of(void* block) { return static_cast<char*>(block) - kHeader; }

constexpr std::align_val_t kAlignment{64};

void check_arrays() {
  ::operator delete[](::operator new[](100, std::nothrow), std::nothrow);
  CHECK(counted(2, 0));
  ::operator delete[](::operator new[](100), std::size_t{100});
  CHECK(counted(2, 0));
  ::operator delete(::operator new(100), std::size_t{100});
  CHECK(counted(0, 0));
}

void check_aligned() {
  ::operator delete(::operator new(100, kAlignment), std::size_t{100}, kAlignment);
  CHECK(counted(0, 2));
  ::operator delete(::operator new(100, kAlignment, std::nothrow), kAlignment, std::nothrow);
  CHECK(counted(0, 2));
  ::operator delete[](::operator new[](100, kAlignment), kAlignment);
  CHECK(counted(0, 2));
  ::operator delete[](::operator new[](100, kAlignment), std::size_t{100}, kAlignment);
  CHECK(counted(0, 2));
  ::operator delete[](::operator new[](100, kAlignment, std::nothrow), kAlignment, std::nothrow);
  CHECK(counted(0, 2));
}

void check_failure() {
  refuse = true;
  CHECK(::operator new[](100, std::nothrow) == nullptr);
  CHECK(counted(1, 0));
  CHECK(::operator new(100, kAlignment, std::nothrow) == nullptr);
  CHECK(::operator new[](100, kAlignment, std::nothrow) == nullptr);
  CHECK(counted(0, 2));
  refuse = false;
}

}  // namespace

void* operator new[](std::size_t size) {
  array_calls++;
  return make(refuse ? nullptr : std::malloc(size + kHeader));
}

void operator delete[](void* block) noexcept {
  array_calls++;
  std::free(start_of(block));
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  aligned_calls++;
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t whole = (size + kHeader + unit - 1) / unit * unit;
  return make(refuse ? nullptr : std::aligned_alloc(unit, whole));
}

void operator delete(void* block, std::align_val_t) noexcept {
  aligned_calls++;
  std::free(start_of(block));
}

int main() {
  array_calls = aligned_calls = 0;  // what came before main is not judged
  check_arrays();
  check_aligned();
  check_failure();
  std::printf("cases: %d\n", cases);
  return 0;
}
