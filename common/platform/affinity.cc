#include "platform/affinity.h"

#include <sched.h>
#include <unistd.h>

namespace near {
namespace {

void run_on(const unsigned long* words, size_t bytes) {
  sched_setaffinity(0, bytes, reinterpret_cast<const cpu_set_t*>(words));
}

}  // namespace

Affinity::Affinity() {
  sched_getaffinity(getpid(), sizeof words_, reinterpret_cast<cpu_set_t*>(words_));
}

void Affinity::move_to(const Topology& topology, unsigned node) const {
  unsigned long here[kMaxCpus / kWordBits] = {};
  bool some = false;
  for (unsigned cpu = 0; cpu < kMaxCpus; cpu++) {
    const unsigned long bit = words_[cpu / kWordBits] & 1UL << cpu % kWordBits;
    if (bit == 0 || topology.node_of(cpu) != node) continue;
    here[cpu / kWordBits] |= bit;
    some = true;
  }
  run_on(some ? here : words_, sizeof here);
}

void Affinity::spread() const { run_on(words_, sizeof words_); }

}  // namespace near
