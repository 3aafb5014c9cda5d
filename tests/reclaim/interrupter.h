// Stops threads at any instruction for a while, by a signal whose handler sleeps. So a thread falls
// behind in the middle of an update, where no test has a hook.
// Invariant: a signal goes only to a thread that is watched, hence alive.
// Thread-safety: only the thread that made it uses it; any thread may `watch` itself.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace near_test {

class Interrupter {
 public:
  Interrupter() {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      const timespec nap = {0, 300'000};
      nanosleep(&nap, nullptr);
    };
    action.sa_flags = SA_RESTART;
    sigaction(kSignal, &action, &before_);
    thread_ = std::thread([this] { run(); });
  }
  ~Interrupter() {
    stop();
    sigaction(kSignal, &before_, nullptr);
  }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

  // From construction to destruction the calling thread may be stopped.
  class Watched {
   public:
    explicit Watched(Interrupter& interrupter) : interrupter_(interrupter) {
      const std::lock_guard lock(interrupter_.mutex_);
      interrupter_.watched_.push_back(pthread_self());
    }
    ~Watched() {
      const std::lock_guard lock(interrupter_.mutex_);
      std::erase_if(interrupter_.watched_,
                    [](pthread_t each) { return pthread_equal(each, pthread_self()) != 0; });
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    Interrupter& interrupter_;
  };

  size_t interruptions() const { return interruptions_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kSignal = SIGUSR2;

  void run() {
    for (size_t turn = 0; !done_.load(std::memory_order_acquire); ++turn) {
      std::this_thread::sleep_for(std::chrono::microseconds(50 + turn * 37 % 200));
      const std::lock_guard lock(mutex_);
      if (watched_.empty()) continue;
      if (pthread_kill(watched_[turn % watched_.size()], kSignal) == 0) {
        interruptions_.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }

  void stop() {
    done_.store(true, std::memory_order_release);
    thread_.join();
  }

  struct sigaction before_ = {};
  std::mutex mutex_;
  std::vector<pthread_t> watched_;
  std::atomic<bool> done_{false};
  std::atomic<size_t> interruptions_{0};
  std::thread thread_;
};

}  // namespace near_test
