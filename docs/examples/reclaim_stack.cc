// A structure of one's own: read under a guard with protect, unlink, then retire.
#include <atomic>
#include <cstdio>

#include "nearmalloc/reclaim/domain.hpp"

struct Node {
  int value;
  Node* next;
};
std::atomic<Node*> top{nullptr};
near::reclaim::domain<near::reclaim::hazard_pointers> domain;

void push(int value) {
  auto* node = new Node{value, top.load()};
  while (!top.compare_exchange_weak(node->next, node)) {
  }
}

int pop() {
  auto guard = domain.pin();
  Node* node;
  do {
    node = guard.protect(0, top);  // nobody frees it from here on
    if (node == nullptr) return 0;
  } while (!top.compare_exchange_strong(node, node->next));
  guard.retire(node);  // deleted when nobody else protects it
  return node->value;  // which we do, until the guard ends
}

int main() {
  push(1);
  push(2);
  const int last = pop();
  std::printf("%d, then %d\n", last, pop());
}
