// A binary heap whose members know their place, so that any of them can be moved or removed.
#pragma once

#include <cstddef>

namespace near::manycore {

// `Order::before(a, b)` orders members; `heap_place` of a member is its place + 1, or 0 outside.
template <typename Member, typename Order>
class Heap {
 public:
  void create(Member** room) { members_ = room; }
  bool empty() const { return count_ == 0; }
  Member* top() const { return members_[0]; }

  void push(Member* member) {
    members_[count_] = member;
    member->heap_place = ++count_;
    up(count_ - 1);
  }
  void remove(Member* member) {
    const size_t place = member->heap_place - 1;
    member->heap_place = 0;
    Member* const last = members_[--count_];
    if (last == member) return;
    put(last, place);
    moved(last);
  }
  void moved(Member* member) {  // its order changed
    up(member->heap_place - 1);
    down(member->heap_place - 1);
  }

 private:
  void put(Member* member, size_t place) {
    members_[place] = member;
    member->heap_place = place + 1;
  }
  void up(size_t place) {
    Member* const member = members_[place];
    while (place > 0 && Order::before(member, members_[(place - 1) / 2])) {
      put(members_[(place - 1) / 2], place);
      place = (place - 1) / 2;
    }
    put(member, place);
  }
  void down(size_t place) {
    Member* const member = members_[place];
    for (size_t child = 2 * place + 1; child < count_; child = 2 * place + 1) {
      if (child + 1 < count_ && Order::before(members_[child + 1], members_[child])) ++child;
      if (!Order::before(members_[child], member)) break;
      put(members_[child], place);
      place = child;
    }
    put(member, place);
  }

  Member** members_ = nullptr;
  size_t count_ = 0;
};

}  // namespace near::manycore
