// A region that the plugin counts (lab/vm/plugin), in which threads that wait for it do their part.
//
// Invariant: nobody's part begins before the region has, and it ends after the last one. The
// barrier is for the threads and the main one, and lies where it is no heap.
// Who may touch it: run_region() the main thread; take_part() each of the others, once.
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
  pthread_barrier_wait(&meeting);  // and ended
}

}  // namespace numa_guest
