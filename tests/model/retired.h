// What the models of reclamation share: objects that notice when they are used after they were
// freed, and the limbo of a thread (mirrors reclaim/limbo.cc; bags are labels of entries here).
// Invariant: reading an object while or after it is freed fails the model.
// Thread-safety: a limbo belongs to its owner, or to the thread that the protocol allows.
#pragma once

#include "model_fence.h"
#include "runner.h"

namespace near::model {

inline Witness objects_freed("objects freed");

// Other threads may run here.
inline void pause() { rl::ctx().sched(); }

// Makes an order of events likely. It orders no memory; a thread that waits in vain gives up.
class Gate {
 public:
  void open() { is_open_ = true; }
  void wait() const {
    for (int i = 0; i < 300 && !is_open_; i++) pause();
  }

 private:
  bool is_open_ = false;
};

class Object {
 public:
  void make() { content_ = kAlive; }
  void touch() const {
    expect(content_ == kAlive, "an object is used after it was freed");
    pause();
    expect(content_ == kAlive, "an object is freed while it is used");
  }
  void destroy() {
    expect(content_ == kAlive, "an object is freed twice");
    content_ = kDead;
    objects_freed.note();
  }
  bool is_freed() const { return content_ == kDead; }

 private:
  static constexpr uint32_t kAlive = 1;
  static constexpr uint32_t kDead = 2;
  Plain<uint32_t> content_;
};

class Limbo {
 public:
  void init(uint64_t label) {
    count_ = 0;
    label_ = label;
  }
  uint32_t count() const { return count_; }
  bool holds(const Object* object) const {
    for (uint32_t i = 0; i < count_; i++) {
      if (entries_[i].object == object) return true;
    }
    return false;
  }

  void push(Object* object) { push(object, label_); }

  // Limbo::advance; an object that expires is freed at once.
  void advance(uint64_t now, uint64_t distance) {
    sift([&](const Object*, uint64_t label) { return label + distance > now; });
    label_ = now;
  }
  void free_all() {
    sift([](const Object*, uint64_t) { return false; });
  }
  // Limbo::give_all_held.
  void give_all_held(Limbo& to) {
    for (uint32_t i = 0; i < count_; i++) to.push(entries_[i].object);
    count_ = 0;
  }
  // Limbo::sift; keeps the objects for which stays(object, label) is true.
  template <class Stays>
  void sift(Stays stays) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; i++) {
      if (stays(entries_[i].object, entries_[i].label)) {
        entries_[kept++] = entries_[i];
      } else {
        Object* object = entries_[i].object;
        object->destroy();
      }
    }
    count_ = kept;
  }

 private:
  struct Entry {
    Plain<Object*> object;
    Plain<uint64_t> label;
  };

  void push(Object* object, uint64_t label) {
    expect(count_ < kRoom, "the limbo is full");
    entries_[count_].object = object;
    entries_[count_].label = label;
    count_ = count_ + 1;
  }

  static constexpr uint32_t kRoom = 6;
  Plain<uint32_t> count_;
  Plain<uint64_t> label_;  // of the bag being filled
  Entry entries_[kRoom];
};

}  // namespace near::model
