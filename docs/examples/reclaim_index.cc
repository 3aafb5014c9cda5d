// An ordered index with text as keys, read in ranges while threads change it.
#include <cstdio>
#include <string>
#include <thread>

#include "nearmalloc/reclaim/skip_list.hpp"

int main() {
  using Domain = near::reclaim::domain<near::reclaim::debra<>>;
  Domain domain;
  near::reclaim::skip_list<std::string, long, Domain> stock(domain);
  stock.insert("apples", 0);
  stock.insert("pears", 7);
  const auto deliver = [&stock] {
    for (int crates = 0; crates < 1000;) {
      const long before = *stock.find("apples");
      crates += stock.compare_and_replace("apples", before, before + 1) ? 1 : 0;
    }
  };
  std::thread one(deliver);
  std::thread other(deliver);
  stock.upsert("quinces", 3);
  one.join();
  other.join();
  stock.range("a", "q", [](const std::string& fruit, long crates) {
    std::printf("%s %ld\n", fruit.c_str(), crates);
  });
}
