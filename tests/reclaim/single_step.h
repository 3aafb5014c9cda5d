// Signals after any one instruction of a piece of code: the processor's trap flag, x86-64.
// Invariant: code runs as it would otherwise; the action runs once, in a handler of SIGTRAP, after
// the instruction of the given number, or not at all if the code is shorter. If that instruction is
// the C library's, the action waits for the end of the call: it may need the library's malloc, for
// what other threads would do. Runs nest.
// Thread-safety: one thread uses it.
// NEAR_TEST_STEPS: 1 where tests may stop a thread so. With checks, frees and retirements lock the
// notes of retired objects; a stopped thread would hold that lock for ever.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !NEAR_CHECK
#define NEAR_TEST_STEPS 1
#else
#define NEAR_TEST_STEPS 0
#endif

#if NEAR_TEST_STEPS
#include <signal.h>
#include <ucontext.h>

#include <functional>
#include <utility>

extern "C" const char __executable_start, etext;  // NOLINT: names of the linker

namespace near_test {

class SingleStep {
 public:
  // `action` after `at` instructions of what runs between `go` and `halt`.
  SingleStep(long at, std::function<void()> action) : left_(at), action_(std::move(action)) {
    struct sigaction handler = {};
    handler.sa_sigaction = on_trap;
    handler.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGTRAP, &handler, &before_);
    outer_ = std::exchange(current_, this);
  }
  ~SingleStep() {
    current_ = outer_;
    sigaction(SIGTRAP, &before_, nullptr);
  }
  SingleStep(const SingleStep&) = delete;
  SingleStep& operator=(const SingleStep&) = delete;

  [[gnu::always_inline]] void go() {
    if (!has_acted_) {
      asm volatile(
          "lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n"
          "lea 128(%%rsp), %%rsp" ::
              : "memory", "cc");
    }
  }
  [[gnu::always_inline]] void halt() {
    asm volatile(
        "lea -128(%%rsp), %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n"
        "lea 128(%%rsp), %%rsp" ::
            : "memory", "cc");
  }

  bool has_acted() const { return has_acted_; }

 private:
  static bool is_in_program(greg_t address) {
    return address >= reinterpret_cast<greg_t>(&__executable_start) &&
           address < reinterpret_cast<greg_t>(&etext);
  }

  static void on_trap(int, siginfo_t*, void* context) {
    SingleStep& step = *current_;
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    if (--step.left_ > 0 || !is_in_program(registers[REG_RIP])) return;
    registers[REG_EFL] &= ~0x100;
    step.has_acted_ = true;
    current_ = step.outer_;  // what the action does is not part of the code
    step.action_();
    current_ = &step;
  }

  static inline SingleStep* current_ = nullptr;

  long left_;
  std::function<void()> action_;
  bool has_acted_ = false;
  SingleStep* outer_;
  struct sigaction before_ = {};
};

}  // namespace near_test
#endif
