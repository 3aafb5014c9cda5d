// Every form of operator new without memory: it throws, calls the new-handler, or returns null.
// As a program, and as a plugin that exports `plugin_run`.
// Source: ISO C++20 [new.delete.single], [alloc.errors].
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "check.h"

namespace {

using std::align_val_t;

constexpr align_val_t kAlignment{256};

struct OwnError : std::bad_alloc {};

int handler_calls = 0;

template <class Make>
bool throws_bad_alloc(Make make) {
  try {
    (void)make();
  } catch (const std::bad_alloc& error) {
    return error.what() != nullptr;
  }
  return false;
}

template <class Make>
bool throws_own_error(Make make) {
  try {
    (void)make();
  } catch (const OwnError&) {
    return true;
  }
  return false;
}

void call_twice_then_give_up() {
  if (++handler_calls == 2) std::set_new_handler(nullptr);
}

void throw_own_error() {
  handler_calls++;
  throw OwnError();
}

template <class Make>
void check_throwing(Make make) {
  CHECK(throws_bad_alloc(make));
  handler_calls = 0;
  std::set_new_handler(call_twice_then_give_up);
  CHECK(throws_bad_alloc(make));
  CHECK(handler_calls == 2);
  handler_calls = 0;
  std::set_new_handler(throw_own_error);
  CHECK(throws_own_error(make));
  CHECK(handler_calls == 1);
  std::set_new_handler(nullptr);
}

template <class Make>
void check_nothrow(Make make) {
  CHECK(make() == nullptr);
  handler_calls = 0;
  std::set_new_handler(call_twice_then_give_up);
  CHECK(make() == nullptr);
  CHECK(handler_calls == 2);
  handler_calls = 0;
  std::set_new_handler(throw_own_error);
  CHECK(make() == nullptr);
  CHECK(handler_calls == 1);
  std::set_new_handler(nullptr);
}

void check_every_form() {
  check_throwing([] { return ::operator new(impossible()); });
  check_throwing([] { return ::operator new[](impossible()); });
  check_throwing([] { return ::operator new(impossible(), kAlignment); });
  check_throwing([] { return ::operator new[](impossible(), kAlignment); });
  check_throwing([] { return new char[impossible()]; });
  check_nothrow([] { return ::operator new(impossible(), std::nothrow); });
  check_nothrow([] { return ::operator new[](impossible(), std::nothrow); });
  check_nothrow([] { return ::operator new(impossible(), kAlignment, std::nothrow); });
  check_nothrow([] { return ::operator new[](impossible(), kAlignment, std::nothrow); });
}

constexpr rlim_t kMiB = rlim_t{1} << 20;

rlimit unlimited{};

void limit_data(rlim_t bytes) {
  getrlimit(RLIMIT_DATA, &unlimited);
  rlimit limit = unlimited;
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_DATA, &limit);
}

// The handler makes room; the allocation then succeeds. Each round of a process asks for more than
// the rounds before, whose memory may be kept.
void check_a_handler_that_makes_room(int round) {
  handler_calls = 0;
  std::set_new_handler([] {
    if (++handler_calls == 2) setrlimit(RLIMIT_DATA, &unlimited);
  });
  limit_data(512 * kMiB);
  void* block = ::operator new(static_cast<std::size_t>(round) * 1024 * kMiB);
  CHECK(block != nullptr && handler_calls == 2);
  ::operator delete(block);
  std::set_new_handler(nullptr);
}

struct Node {
  Node* next;
  char filling[40];
};

// Bytes of writable memory that the process has, as the kernel counts them.
rlim_t data_bytes() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) == 1);
  std::fclose(file);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// Memory ends with a small object, so nothing on the way to the exception can allocate either.
void check_exhaustion() {
  limit_data(data_bytes() + 4 * kMiB);
  Node* list = nullptr;
  bool caught = false;
  try {
    while (true) list = new Node{list, {}};
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  setrlimit(RLIMIT_DATA, &unlimited);
  CHECK(caught);
  CHECK(list != nullptr);
  while (list != nullptr) delete std::exchange(list, list->next);
}

}  // namespace

extern "C" int plugin_run(int round);
extern "C" int plugin_run(int round) {
  cases = 0;
  check_every_form();
  if (round == 1) check_exhaustion();  // later the limit would not count what is kept
  check_a_handler_that_makes_room(round);
  return cases;
}

int main() {
  std::printf("cases: %d\n", plugin_run(1));
  return 0;
}
