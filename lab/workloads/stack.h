// A stack of the workload's own, for threads that follow each other.
//
// One of the C library's would go to whichever thread starts next, on any node, and with it the
// vector of its thread-local storage, a block of the heap. Of a thread on a stack of ours that
// block is allocated by who starts it and freed by who joins it.
// Thread-safety: one thread, which waits for the other.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "table.h"

namespace workload {

class Stack {
 public:
  Stack() { bytes_.reserve(kBytes); }  // mapped, and touched by nobody but the thread

  // Runs body() in a thread and waits for its end.
  template <typename Body>
  void run(Body& body) {
    const auto call = [](void* argument) -> void* {
      (*static_cast<Body*>(argument))();
      return nullptr;
    };
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, bytes_.data(), kBytes);
    pthread_t thread{};
    if (pthread_create(&thread, &attributes, call, &body) != 0) {
      std::fprintf(stderr, "no more threads\n");
      std::exit(1);
    }
    pthread_attr_destroy(&attributes);
    pthread_join(thread, nullptr);
  }

 private:
  static constexpr size_t kBytes = size_t{256} << 10;  // what the marking takes for a stack

  Table<std::byte> bytes_;
};

}  // namespace workload
