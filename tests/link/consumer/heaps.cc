#include <cstdio>
#include <nearmalloc/heap.hpp>
#include <vector>
int main() {
  near::heap_resource spread{near::heap::interleaved()};
  std::pmr::vector<int> numbers(1'000, 7, &spread);
  std::printf("%d\n", near_node_of(numbers.data()) >= 0);
}
