// Free objects, and a chain of them that moves as one: a sub-list. [Yang23 §3.5]
// Invariant: head..tail is a null-terminated chain of `count` objects, or all three are null and 0.
// Thread-safety: none; guarded by the structure that contains it.
#pragma once

#include <cstdint>

namespace near::design::numalloc {

struct Object {
  Object* next;
};

struct Sublist {
  Object* head = nullptr;
  Object* tail = nullptr;
  uint32_t count = 0;
};

}  // namespace near::design::numalloc
