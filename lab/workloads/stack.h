// A thread stack that the workload maps, for threads that run one after the other.
//
// The C library gives a cached stack to any thread that starts next, on any node. The stack's
// vector of thread-local storage, a block of the heap, goes with it. On a stack of ours, the
// thread that starts the other allocates that block, and the thread that joins it frees the block.
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
  Stack() { bytes_.reserve(kBytes); }  // mapped; only the thread touches it

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
  static constexpr size_t kBytes = size_t{256} << 10;  // the marking's kStackBytes

  Table<std::byte> bytes_;
};

}  // namespace workload
