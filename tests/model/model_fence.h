// The fences of a model, and the rules of C++20 that Relacy does not have, for suites of three
// threads (FencedSuite).
//
//   fence            orders what comes before one fence and after a later one: a load there finds
//                    nothing older. Unlike Relacy's own fence, it hands over no plain memory
//   seq_cst          a load finds nothing older than what came before a fence that precedes the
//                    load; a load after a fence finds nothing older than a store before the fence
//   asymmetric       the light fence does nothing; the heavy one makes every other thread execute a
//                    fence, one after the other, wherever it is: membarrier(2)
//   release sequence ends at the next plain store of the same thread
// Invariant: beside Relacy's clock j, which says which steps of thread j happened before, a thread
// has a clock j + 3: the steps of thread j it must not overlook. Release and acquire pass both on.
// Thread-safety: only fence.hpp uses it, in a model.
#pragma once

#include "model_atomic.h"

namespace near {

inline constexpr rl::thread_id_t kThreads = 3;
inline constexpr rl::thread_id_t kClocks = 2 * kThreads;

using ThreadClocks = rl::thread_info<kClocks>;

// Three threads, and three that are never started, whose clocks are the clocks j + 3.
template <class Suite>
struct FencedSuite : rl::test_suite<Suite, kThreads> {
  static constexpr rl::thread_id_t dynamic_thread_count = kThreads;
};

struct FenceOrder {
  ThreadClocks* threads[kClocks];
  rl::timestamp_t fenced[kThreads];   // for each thread: what happened before some fence
  rl::timestamp_t ordered[kThreads];  // the last sequentially consistent store of each thread
  rl::timestamp_t seen[kThreads][kThreads];  // that of each thread before the last fence of each
};
inline FenceOrder fence_order = {};

inline void execute_fence(ThreadClocks& thread) {
  thread.atomic_thread_fence_acquire();
  for (rl::thread_id_t i = 0; i < kThreads; i++) {
    rl::timestamp_t& known = thread.acq_rel_order_[kThreads + i];
    rl::timestamp_t& fenced = fence_order.fenced[i];
    known = std::max(known, fenced);
    fenced = std::max(fenced, thread.acq_rel_order_[i]);
    if (thread.index_ < kThreads) fence_order.seen[thread.index_][i] = fence_order.ordered[i];
  }
  thread.atomic_thread_fence_release();
}

inline bool is_removed(const Place& place) { return mutated(kSeqCst, place) != kSeqCst; }

inline ThreadClocks& fencing_thread() {
  rl::context& context = rl::ctx();
  context.sched();
  return *fence_order.threads[context.threadx_->index_];
}

inline void model_light_fence(bool asymmetric, const Place& place) {
  if (!asymmetric && !is_removed(place)) execute_fence(fencing_thread());
}

inline void model_heavy_fence(bool asymmetric, const Place& place) {
  if (is_removed(place)) return;
  ThreadClocks& me = fencing_thread();
  execute_fence(me);
  if (!asymmetric) return;
  const uint32_t first = rl::rand(kThreads);
  for (uint32_t i = 0; i < kThreads; i++) {
    ThreadClocks& other = *fence_order.threads[(first + i) % kThreads];
    rl::ctx().sched();
    if (&other != &me) execute_fence(other);
  }
  execute_fence(me);
}

}  // namespace near

namespace rl {

template <>
inline void thread_info<near::kClocks>::iteration_begin() {
  sync_object_.iteration_begin();
  last_yield_ = 0;
  dynamic_thread_func_ = nullptr;
  dynamic_thread_param_ = nullptr;
  for (timestamp_t& each : acq_rel_order_) each = 0;
  acq_rel_order_[index_] = 1;
  temp_switch_from_ = -1;
  saved_disable_preemption_ = -1;
  near::fence_order.threads[index_] = this;
  if (index_ != 0) return;
  std::fill_n(near::fence_order.fenced, near::kThreads, timestamp_t{0});
  std::fill_n(near::fence_order.ordered, near::kThreads, timestamp_t{0});
  for (auto& row : near::fence_order.seen) std::fill_n(row, near::kThreads, timestamp_t{0});
}

// Which of the last values a load returns. It is not older than one that happened before, that a
// thread saw before, or that a fence forbids to overlook.
template <>
template <memory_order order, bool rmw>
unsigned thread_info<near::kClocks>::get_load_index(atomic_data_impl<near::kClocks>& var) {
  unsigned index = var.current_index_;
  const auto record = [&](unsigned at) -> auto& { return var.history_[at % atomic_history_size]; };
  const auto is_known = [&](thread_id_t thread, timestamp_t time) {
    timestamp_t fenced = acq_rel_order_[near::kThreads + thread];
    if (order == mo_seq_cst && thread < near::kThreads) {
      fenced = std::max(fenced, near::fence_order.fenced[thread]);
    }
    return std::max(acq_rel_order_[thread], fenced) >= time;
  };
  const auto was_ordered = [&](const auto& store) {
    return store.seq_cst_ && index_ < near::kThreads && store.thread_id_ < near::kThreads &&
           near::fence_order.seen[index_][store.thread_id_] >= store.acq_rel_timestamp_;
  };
  for (size_t older = 1; !rmw && older < atomic_history_size; older++, index--) {
    const auto& present = record(index);
    const auto& previous = record(index - 1);
    if (!present.busy_) break;
    if (previous.busy_ && previous.first_seen_order_[index_] <= last_yield_) break;
    if (order == mo_seq_cst && present.seq_cst_) break;
    if (is_known(present.thread_id_, present.acq_rel_timestamp_) || was_ordered(present)) break;
    bool seen = false;
    for (thread_id_t i = 0; i < near::kThreads; i++) {
      seen = seen || is_known(i, present.first_seen_order_[i]);
    }
    if (seen || ctx().rand(2, sched_type_atomic_load) == 0) break;
  }
  return record(index).busy_ ? index : static_cast<unsigned>(-1);
}

template <>
template <memory_order order, bool rmw>
unsigned thread_info<near::kClocks>::atomic_store(atomic_data* data) {
  auto& var = *static_cast<atomic_data_impl<near::kClocks>*>(data);
  const auto& previous = var.history_[var.current_index_ % atomic_history_size];
  const unsigned index = ++var.current_index_ % atomic_history_size;
  auto& record = var.history_[index];
  record.busy_ = true;
  record.thread_id_ = index_;
  record.seq_cst_ = order == mo_seq_cst;
  record.acq_rel_timestamp_ = ++own_acq_rel_order_;
  for (timestamp_t& each : record.first_seen_order_) each = static_cast<timestamp_t>(-1);
  record.first_seen_order_[index_] = own_acq_rel_order_;
  const bool releases = order == mo_release || order == mo_acq_rel || order == mo_seq_cst;
  if (record.seq_cst_ && index_ < near::kThreads) {
    near::fence_order.ordered[index_] = record.acq_rel_timestamp_;
  }
  const timestamp_t* mine = releases ? acq_rel_order_ : release_fence_order_;
  for (thread_id_t i = 0; i < near::kClocks; i++) {
    const timestamp_t before = rmw && previous.busy_ ? previous.acq_rel_order_[i] : 0;
    record.acq_rel_order_[i] = std::max(mine[i], before);
  }
  return index;
}

}  // namespace rl
