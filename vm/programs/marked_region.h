// A region that the plugin counts (vm/plugin), in which threads that wait for it do their part.
//
// Invariant: no thread's part begins before the region has, and the region ends after the last one.
// The barrier is for these threads and the main thread, and does not lie in a heap.
// Thread-safety: the main thread calls run_region(); each of the others calls take_part(), once.
#pragma once

#include <pthread.h>

#include "../../lab/workloads/marking.h"

namespace numa_guest {

inline void run_region(pthread_barrier_t& meeting) {
  pthread_barrier_wait(&meeting);
  workload::marking::begin();
  pthread_barrier_wait(&meeting);
  pthread_barrier_wait(&meeting);
  workload::marking::end();
  pthread_barrier_wait(&meeting);
}

template <typename Part>
void take_part(pthread_barrier_t& meeting, Part part) {
  pthread_barrier_wait(&meeting);
  pthread_barrier_wait(&meeting);  // the region has begun
  part();
  pthread_barrier_wait(&meeting);
  pthread_barrier_wait(&meeting);  // the region has ended
}

}  // namespace numa_guest
