// A program that replaces operator new(size_t) and operator delete(void*) alone: every form that
// [new.delete] defines by these calls the replacements. Their blocks do not start where malloc's
// do, and every delete of them is a correct one.
#include <new>

#include "check.h"

namespace {

constexpr std::size_t kHeader = 32;
int news = 0;
int deletes = 0;
bool refuse = false;

bool counted(int new_calls, int delete_calls) {
  const bool right = news == new_calls && deletes == delete_calls;
  news = deletes = 0;
  return right;
}

struct Object {
  int numbers[10];
  Object() : numbers() {}
  ~Object() { numbers[0] = -1; }
};

void check_new() {
  void* block = ::operator new[](100);
  CHECK(counted(1, 0));
  ::operator delete[](block);
  CHECK(counted(0, 1));
  block = ::operator new(100, std::nothrow);
  CHECK(counted(1, 0));
  ::operator delete(block, std::nothrow);
  CHECK(counted(0, 1));
  block = ::operator new[](100, std::nothrow);
  CHECK(counted(1, 0));
  ::operator delete[](block, std::nothrow);
  CHECK(counted(0, 1));
}

void check_sized_delete() {
  ::operator delete(::operator new(100), std::size_t{100});
  CHECK(counted(1, 1));
  ::operator delete[](::operator new[](100), std::size_t{100});
  CHECK(counted(1, 1));
  delete new Object;
  CHECK(counted(1, 1));
  delete[] new Object[7];
  CHECK(counted(1, 1));
}

void check_failure() {
  refuse = true;
  CHECK(::operator new(100, std::nothrow) == nullptr);
  CHECK(::operator new[](100, std::nothrow) == nullptr);
  CHECK(counted(2, 0));
  bool caught = false;
  try {
    ::operator delete[](::operator new[](100));
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  CHECK(caught && counted(1, 0));
  refuse = false;
}

// The aligned forms are defined by each other, not by these.
void check_aligned() {
  void* block = ::operator new[](100, std::align_val_t{128});
  CHECK(reinterpret_cast<std::uintptr_t>(block) % 128 == 0);
  ::operator delete[](block, std::align_val_t{128});
  CHECK(counted(0, 0));
}

}  // namespace

void* operator new(std::size_t size) {
  news++;
  void* block = refuse ? nullptr : std::malloc(size + kHeader);
  if (block == nullptr) throw std::bad_alloc();
  return static_cast<char*>(block) + kHeader;
}

void operator delete(void* block) noexcept {
  deletes++;
  if (block != nullptr) std::free(static_cast<char*>(block) - kHeader);
}

int main() {
  news = deletes = 0;  // what came before main is not judged
  check_new();
  check_sized_delete();
  check_failure();
  check_aligned();
  std::printf("cases: %d\n", cases);
  return 0;
}
