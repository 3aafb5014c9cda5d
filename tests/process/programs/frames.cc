// Holds blocks that a member of a template, a lambda, an operator and a function of a namespace
// without a name allocate, and a vector of the C++ library (tests/process/frames.py).
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace store {

template <class Item>
struct Shelf {
  std::vector<std::unique_ptr<Item[]>> rows;

  __attribute__((noinline)) void plant_member(size_t size) { rows.emplace_back(new Item[size]{1}); }
  __attribute__((noinline)) Shelf& operator+=(size_t size) {
    rows.emplace_back(new Item[size]{2});
    return *this;
  }
};

}  // namespace store

namespace {

__attribute__((noinline)) void plant_hidden(std::vector<char*>& kept) {
  kept.push_back(static_cast<char*>(malloc(3000)));
}

inline void plant_inlined(std::vector<char*>& kept) {
  kept.push_back(static_cast<char*>(malloc(3000)));
}

__attribute__((noinline)) void around_inlined(std::vector<char*>& kept) { plant_inlined(kept); }

}  // namespace

int main() {
  static store::Shelf<int> shelf;
  static std::vector<char*> kept;
  static std::vector<int> grown;
  const std::function<void(size_t)> plant_lambda = [](size_t size) {
    kept.push_back(static_cast<char*>(malloc(size)));
  };
  for (int i = 0; i < 1000; i++) {
    shelf.plant_member(750);
    shelf += 750;
    plant_lambda(3000);
    plant_hidden(kept);
    around_inlined(kept);
  }
  for (int i = 0; i < 750'000; i++) grown.push_back(i);
  std::exit(grown.size() != 750'000);
}
