// Code that takes a compiler a moment; a program with threads to link and run.
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

template <int N>
struct Sum {
  static constexpr long value = N + Sum<N - 1>::value;
};
template <>
struct Sum<0> {
  static constexpr long value = 0;
};

static std::size_t work(int seed) {
  std::map<std::string, std::vector<int>> words;
  for (int i = 0; i < 20000; ++i) words["k" + std::to_string(i * seed % 997)].push_back(i);
  std::size_t found = 0;
  const std::regex pattern("k[0-9]*7");
  for (const auto& [word, places] : words) {
    if (std::regex_match(word, pattern)) found += places.size();
  }
  return found;
}

int main() {
  std::vector<std::size_t> found(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&found, i] { found[i] = work(i + 2); });
  for (auto& each : threads) each.join();
  for (std::size_t each : found) std::cout << each << '\n';
  std::cout << Sum<700>::value << '\n';
}
