// The C++ classes for heaps of nodes: containers on them, moves, errors.
#include <list>
#include <map>
#include <memory_resource>
#include <nearmalloc/heap.hpp>
#include <string>
#include <vector>

#include "support/cases.h"
#include "support/numa_room.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::topology;
using Text = std::basic_string<char, std::char_traits<char>, near::heap_allocator<char>>;

class NumaHeapHpp : public NumaTest {
 protected:
  static int id(unsigned node) { return topology.kernel_id[node]; }
};

TEST_F(NumaHeapHpp, ContainersLieOnTheNodeOfTheirHeap) {
  for (unsigned n = 0; n < topology.count; n++) {
    near::heap heap = near::heap::on_node(id(n), near::placement::strict);
    std::vector<int, near::heap_allocator<int>> numbers{near::heap_allocator<int>(heap)};
    for (int i = 0; i < 100'000; i++) numbers.push_back(i);
    EXPECT_EQ(near_node_of(numbers.data()), id(n));
    EXPECT_EQ(numbers[99'999], 99'999);
    std::list<Text, near::heap_allocator<Text>> texts{near::heap_allocator<Text>(heap)};
    for (int i = 0; i < 100; i++) {
      texts.emplace_back(static_cast<size_t>(i) + 50, 'x', near::heap_allocator<char>(heap));
      EXPECT_EQ(near_node_of(&texts.back()), id(n));
      EXPECT_EQ(near_node_of(texts.back().data()), id(n));
    }
    auto copy = numbers;
    EXPECT_EQ(near_node_of(copy.data()), id(n));
    EXPECT_EQ(copy, numbers);
    count_cases(3);
  }
}

TEST_F(NumaHeapHpp, MovesTakeTheHeapAlong) {
  near::heap here = near::heap::on_node(id(0));
  near::heap there = near::heap::on_node(id(other_node()));
  using Numbers = std::vector<int, near::heap_allocator<int>>;
  Numbers first(1'000, 1, near::heap_allocator<int>(here));
  Numbers second(1'000, 2, near::heap_allocator<int>(there));
  const int* data = second.data();
  first = std::move(second);
  EXPECT_EQ(first.data(), data) << "nothing was copied";
  first.resize(100'000);
  EXPECT_EQ(near_node_of(first.data()), id(other_node()));
  EXPECT_TRUE(near::heap_allocator<int>(here) == near::heap_allocator<char>(there));
  near::heap moved = std::move(here);
  void* block = moved.allocate(100);
  EXPECT_EQ(near_node_of(block), id(0));
  near::heap::deallocate(block);
  count_cases(4);
}

TEST_F(NumaHeapHpp, AResourceServesPolymorphicContainers) {
  for (unsigned n = 0; n < topology.count; n++) {
    near::heap_resource resource{near::heap::on_node(id(n))};
    std::pmr::map<int, std::pmr::string> map{&resource};
    for (int i = 0; i < 1'000; i++) map[i].assign(100, 'a');
    for (const auto& [key, text] : map) {
      ASSERT_EQ(near_node_of(&key), id(n));
      ASSERT_EQ(near_node_of(text.data()), id(n));
    }
    void* aligned = resource.allocate(100, 4096);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
    resource.deallocate(aligned, 100, 4096);
    near::heap_resource other{near::heap::interleaved()};
    EXPECT_TRUE(resource == resource);
    EXPECT_FALSE(resource == other);
    count_cases();
  }
}

TEST_F(NumaHeapHpp, AnInterleavedResourceSpreadsItsBlocks) {
  near::heap_resource resource{near::heap::interleaved()};
  std::pmr::list<int> list{&resource};
  std::vector<size_t> on(topology.count);
  for (unsigned i = 0; i < 10 * topology.count; i++) {
    list.push_back(static_cast<int>(i));
    for (unsigned n = 0; n < topology.count; n++) on[n] += near_node_of(&list.back()) == id(n);
  }
  for (unsigned n = 0; n < topology.count; n++) EXPECT_EQ(on[n], 10u);
  count_cases();
}

TEST_F(NumaHeapHpp, ErrorsAreExceptions) {
  EXPECT_THROW(near::heap::on_node(4'711), std::invalid_argument);
  near::heap heap = near::heap::on_node(id(0));
  EXPECT_THROW(static_cast<void>(heap.allocate(size_t{1} << 62)), std::bad_alloc);
  near::heap_allocator<long> longs(heap);
  EXPECT_THROW(static_cast<void>(longs.allocate(SIZE_MAX / 4)), std::bad_array_new_length);
  count_cases(3);
}

TEST_F(NumaHeapHpp, AnyThreadFreesWhatAContainerHolds) {
  near::heap heap = near::heap::on_node(id(0));
  std::vector<Text> texts;
  for (int i = 0; i < 1'000; i++) texts.emplace_back(200, 'y', near::heap_allocator<char>(heap));
  on_cpu(other_node(), [&] { texts.clear(); });
  count_cases();
}

}  // namespace
}  // namespace near_test
