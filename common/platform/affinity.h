// Where a thread of the library runs: on the CPUs of the node whose memory it works with.
//
// Invariant: it moves to no CPU that the main thread may not use, so the choice of an operator
// (taskset, a cpuset) or of the program is respected.
// Thread-safety: any thread, for itself.
#pragma once

#include "platform/topology.h"

namespace near {

class Affinity {
 public:
  // Reads which CPUs the main thread may use now.
  Affinity();

  // Moves the calling thread to the CPUs of a node, or, if the main thread may use none of these,
  // to all CPUs that the main thread may use. If the kernel refuses, the thread stays where it is.
  void move_to(const Topology& topology, unsigned node) const;

  // Lets the calling thread use all CPUs that the main thread may use.
  void spread() const;

 private:
  static constexpr unsigned kWordBits = 64;
  unsigned long words_[kMaxCpus / kWordBits] = {};  // empty if the kernel refuses
};

}  // namespace near
