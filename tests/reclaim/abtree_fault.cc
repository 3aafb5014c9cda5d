// The (a,b)-tree when memory is refused: any allocation of an operation may fail. This is a program
// of its own, because it replaces operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <new>

#include "nearmalloc/reclaim/abtree.hpp"
#include "reclaim/eager_domain.h"
#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

constexpr long kNever = -1;
thread_local long allocations_left = kNever;

void* allocate(size_t size, size_t alignment) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const block = alignment == 0 ? std::malloc(size) : std::aligned_alloc(alignment, size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

// Refuses memory only in the operation under test.
class Refusing {
 public:
  explicit Refusing(long after) { allocations_left = after; }
  ~Refusing() { allocations_left = kNever; }
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;
};

}  // namespace
}  // namespace near_test

void* operator new(size_t size) { return near_test::allocate(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) {
  return near_test::allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size) { return near_test::allocate(size, 0); }
void* operator new[](size_t size, std::align_val_t alignment) {
  return near_test::allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { std::free(block); }

namespace near_test {
namespace {

// EagerDomain allocates a vector entry for each retired object, which is not part of the tree.
class PatientDomain : public EagerDomain {
 public:
  class guard_type : public EagerDomain::guard_type {
   public:
    using EagerDomain::guard_type::guard_type;
    template <class T>
    void retire(T* object) {
      const long left = std::exchange(allocations_left, kNever);
      EagerDomain::guard_type::retire(object);
      allocations_left = left;
    }
  };
  guard_type pin() { return guard_type(*this); }
};

using Tree = near::reclaim::abtree<int64_t, int64_t, PatientDomain, 4, 2>;
using Model = std::map<int64_t, int64_t>;

void expect_same(const Tree& tree, const Model& model) {
  ASSERT_TRUE(tree.check());
  Model seen;
  tree.for_each([&](int64_t key, int64_t value) { seen[key] = value; });
  ASSERT_EQ(seen, model);
}

// Runs operation number i, and applies it to the model if it did not throw. True if it threw.
bool throws_in_step(Tree& tree, Model& model, int64_t key, bool insert, long after) {
  try {
    bool done = false;
    {
      const Refusing refusing(after);
      done = insert ? tree.insert(key, -key) : tree.erase(key);
    }
    EXPECT_EQ(done, insert ? model.emplace(key, -key).second : model.erase(key) == 1);
    return false;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

TEST(AbtreeFault, EveryAllocationMayFailAndTheEntriesAreAsBefore) {
  PatientDomain domain;
  Tree tree(domain);
  Model model;
  Random random(seed());
  size_t refused = 0;
  const size_t steps = scaled(10'000);
  for (size_t i = 0; i < steps; ++i) {
    const auto key = static_cast<int64_t>(random.below(200));
    const bool insert = random.below(100) < (i / 500 % 2 == 0 ? 75u : 25u);
    for (long after = 0; throws_in_step(tree, model, key, insert, after); ++after) {
      ++refused;
      expect_same(tree, model);
      if (HasFailure()) return;
      count_cases();
    }
    expect_same(tree, model);
  }
  EXPECT_GT(refused, steps / 3);
  EXPECT_EQ(domain.unreclaimed(), 0u);
}

// A tree works after abandoned repairs, and later operations repair it where they pass.
TEST(AbtreeFault, ATreeWhoseRepairsFailedStillWorks) {
  PatientDomain domain;
  Tree tree(domain);
  Model model;
  Random random(seed());
  for (size_t i = 0; i < scaled(20'000); ++i) {
    const auto key = static_cast<int64_t>(random.below(500));
    const long after = random.below(4) == 0 ? kNever : static_cast<long>(random.below(5));
    throws_in_step(tree, model, key, random.below(100) < (i / 2000 % 2 == 0 ? 75u : 25u), after);
    if (i % 16 == 0) expect_same(tree, model);
    if (HasFailure()) return;
    count_cases();
  }
  expect_same(tree, model);
  for (int64_t key = 0; key < 500; ++key) ASSERT_EQ(tree.contains(key), model.contains(key));
}

TEST(AbtreeFault, ATreeThatCannotBeMadeThrows) {
  PatientDomain domain;
  size_t refused = 0;
  for (long after = 0;; ++after) {
    try {
      const Refusing refusing(after);
      const Tree tree(domain);
      break;
    } catch (const std::bad_alloc&) {
      ++refused;
      count_cases();
    }
  }
  EXPECT_EQ(refused, 2u);
}

}  // namespace
}  // namespace near_test
