// A program written to C++26: with a standard library that has <hazard_pointer> and <rcu>, include
// those and say `namespace safe = std;`. Readers look things up while a writer replaces them.
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "nearmalloc/reclaim/std26.hpp"

namespace safe = near::reclaim::std26;

struct Rate : safe::hazard_pointer_obj_base<Rate> {
  explicit Rate(long its_cents) : cents(its_cents) {}
  long cents;
};
struct Table : safe::rcu_obj_base<Table> {
  long prices[3] = {1, 2, 3};
};

std::atomic<Rate*> rate{new Rate(100)};
std::atomic<Table*> table{new Table};

long price(int item) {
  safe::hazard_pointer hold = safe::make_hazard_pointer();
  const Rate* now = hold.protect(rate);
  std::scoped_lock reading(safe::rcu_default_domain());
  return table.load()->prices[item] * now->cents;
}

int main() {
  std::jthread reader([] {
    for (int i = 0; i < 10'000; i++) {
      if (price(i % 3) % 100 != 0) std::puts("a price that never was");
    }
  });
  for (int i = 1; i <= 1000; i++) {
    rate.exchange(new Rate(i * 100))->retire();
    auto* next = new Table;
    for (long& each : next->prices) each *= i;
    table.exchange(next)->retire();
  }
  reader.join();
  safe::rcu_barrier();
  std::printf("%ld cents\n", price(2));
  rate.exchange(nullptr)->retire();
  safe::rcu_retire(table.exchange(nullptr), [](Table* last) { delete last; });
}
