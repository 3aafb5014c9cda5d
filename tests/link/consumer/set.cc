#include <cstdio>
#include <nearmalloc/reclaim/hash_map.hpp>
int main() {
  using Domain = near::reclaim::domain<near::reclaim::debra<>>;
  Domain domain;
  near::reclaim::hash_map<long, long, Domain> squares(domain);
  for (long i = 0; i < 100; ++i) squares.insert(i, i * i);
  squares.erase(7);
  std::printf("%zu %ld\n", squares.size(), squares.find(8).value_or(0));
}
