#include "node/counters.h"

#include "platform/cpu.h"

namespace near {
namespace {

// Several stripes, so that the CPUs of a node do not all write to one cache line.
constexpr unsigned kStripes = 8;

struct alignas(64) Stripe {
  Atomic<uint64_t> blocks_of[kMaxNodes];
};
constinit Stripe apart[kMaxNodes][kStripes];  // by the home node of the freeing thread

}  // namespace

constinit NodeCounters node_counters[kMaxNodes];

uint64_t sum_of(Atomic<uint64_t> NodeCounters::* counter) {
  uint64_t sum = 0;
  for (const NodeCounters& node : node_counters) {
    sum += (node.*counter).load(kRelaxed);  // relaxed: a statistic
  }
  return sum;
}

NEAR_COLD void count_freed_apart(unsigned of, unsigned by, uint64_t blocks) {
  Stripe& stripe = apart[by][current_cpu() % kStripes];
  stripe.blocks_of[of].fetch_add(blocks, kRelaxed);  // relaxed: a statistic
}

uint64_t freed_apart(unsigned of, unsigned by) {
  uint64_t sum = 0;
  for (const Stripe& stripe : apart[by]) {
    sum += stripe.blocks_of[of].load(kRelaxed);  // relaxed: a statistic
  }
  return sum;
}

}  // namespace near
