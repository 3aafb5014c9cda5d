// Four threads share a map; what they erase is freed when no other thread can be reading it.
#include <cstdio>
#include <thread>

#include "nearmalloc/reclaim/hash_map.hpp"

int main() {
  using Domain = near::reclaim::domain<near::reclaim::debra<>>;
  Domain domain;
  near::reclaim::hash_map<long, long, Domain> squares(domain);
  std::thread threads[4];
  for (long first = 0; first < 4; ++first) {
    threads[first] = std::thread([&squares, first] {
      for (long i = first; i < 1000; i += 4) squares.insert(i, i * i);
      for (long i = first; i < 1000; i += 8) squares.erase(i);
    });
  }
  for (std::thread& each : threads) each.join();
  std::printf("%zu numbers; 44 squared is %ld\n", squares.size(), squares.find(44).value_or(0));
}
