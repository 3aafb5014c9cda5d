// Threads that run the same function, each with its number.
// Thread-safety: the thread that made them.
#pragma once

#include <cstddef>
#include <thread>
#include <vector>

namespace near_test {

// Runs body(0), body(1), ... body(number - 1) in a thread each. They are joined at the latest when
// this is destroyed.
class Threads {
 public:
  template <typename Body>
  Threads(size_t number, const Body& body) {
    for (size_t i = 0; i < number; i++) threads_.emplace_back(body, i);
  }
  void join() { threads_.clear(); }

 private:
  std::vector<std::jthread> threads_;
};

template <typename Body>
void run_threads(size_t number, const Body& body) {
  Threads(number, body).join();
}

}  // namespace near_test
