// A thread on a CPU of the test's choice, and steps that two threads take in turn.
// Thread-safety: the thread of the test that made it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "support/fake_cpu.h"

namespace near_test {

// Runs `work` in a thread of its own on `cpu`, and waits for its end.
inline void on_cpu(unsigned cpu, const std::function<void()>& work) {
  std::thread([&] {
    set_cpu(cpu);
    work();
  }).join();
}

// A thread that stays alive and runs what it is given, one function at a time.
class Worker {
 public:
  explicit Worker(unsigned cpu = 0)
      : thread_([this, cpu] {
          set_cpu(cpu);
          run();
        }) {}
  ~Worker() { end(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void end() {
    if (!thread_.joinable()) return;
    hand_over(nullptr);
    thread_.join();
  }

  // Returns when the worker has done it.
  void operator()(const std::function<void()>& work) { hand_over(&work); }

 private:
  void hand_over(const std::function<void()>* work) {
    std::unique_lock lock(mutex_);
    work_ = work;
    pending_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !pending_; });
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (bool more = true; more;) {
      changed_.wait(lock, [&] { return pending_; });
      more = work_ != nullptr;
      if (more) (*work_)();
      pending_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  bool pending_ = false;
  std::thread thread_;
};

}  // namespace near_test
