// Threads allocate into one pool of shared lock-free stacks and free blocks from it, most of which
// other threads allocated. The stacks take much of the time, as the test's author says;
// nalloc_producer and acdc measure remote frees with less overhead.
// Invariant: a thread frees at most as many blocks as it allocated, so there is always one to pop,
// and how many each allocates does not depend on races. Source: the second test of nalloc
// [Podolsky13]: 1e7 operations of all threads, 32 stacks; each thread fills its share of them
// (nalloc_levels.h).
#include "nalloc_levels.h"
#include "tagged_stack.h"
#include "workload.h"

namespace {

class Pool {
 public:
  Pool(size_t stacks, size_t nodes) : stacks_(stacks), nodes_(nodes) {}

  size_t stacks() const { return stacks_.size(); }
  workload::StackNode& node(uint32_t number) { return nodes_[number]; }
  void push(size_t stack, uint32_t node) { stacks_[stack].push(nodes_.data(), node); }

  // Pops from the stack or, if it is empty, from the next stack that is not.
  uint32_t pop(size_t stack) {
    for (size_t tried = 1;; ++tried) {
      const uint32_t found = stacks_[stack].pop(nodes_.data());
      if (found != 0) return found - 1;
      stack = (stack + 1) % stacks_.size();
      if (tried % stacks_.size() == 0) std::this_thread::yield();
    }
  }

 private:
  workload::Table<workload::TaggedStack> stacks_;
  workload::Table<workload::StackNode> nodes_;
};

// One thread's state: its nodes that are on no stack, and how many more blocks it put than took.
class Member {
 public:
  Member(Pool& pool, size_t id, size_t limit)
      : pool_(pool), random_(id + 1), free_nodes_(limit + 1), limit_(limit) {
    for (size_t i = 0; i < free_nodes_.size(); ++i)
      free_nodes_[i] = static_cast<uint32_t>(id * free_nodes_.size() + i);
  }

  size_t balance() const { return balance_; }
  bool allocates() {
    return workload::allocates_next(random_, balance_ * workload::kFullest, limit_);
  }
  void put(workload::Worker& worker, size_t low, size_t high) {
    const uint32_t node = free_nodes_[limit_ - balance_++];
    pool_.node(node).block = worker.allocate(random_.between(low, high));
    pool_.push(random_.below(pool_.stacks()), node);
  }
  void take(workload::Worker& worker) {
    const uint32_t node = pool_.pop(random_.below(pool_.stacks()));
    worker.release(pool_.node(node).block);
    free_nodes_[limit_ - --balance_] = node;
  }

 private:
  Pool& pool_;
  workload::Random random_;
  workload::Table<uint32_t> free_nodes_;
  size_t limit_;
  size_t balance_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 2, operations = 10'000'000, stacks = 32, low = 1, high = 1024;
  workload::Workload workload("nalloc_global", "allocates into and frees from one shared pool");
  workload.count("--threads", threads, "threads");
  workload.count("--operations", operations, 5'000'000,
                 "mallocs and frees of all threads together");
  workload.count("--stacks", stacks, "stacks of the pool");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const size_t limit = stacks * workload::kFullest / threads + 1;
  Pool pool(stacks, threads * (limit + 1));
  std::vector<Member> members;
  members.reserve(threads);
  for (size_t id = 0; id < threads; ++id) members.emplace_back(pool, id, limit);
  workload.run(threads, [&](workload::Worker& worker, size_t id) {
    Member& member = members[id];
    for (size_t i = 0; i < operations / threads; ++i) {
      if (member.allocates()) {
        member.put(worker, low, high);
      } else {
        member.take(worker);
      }
    }
    while (member.balance() != 0) member.take(worker);
  });
  return workload.report();
}
