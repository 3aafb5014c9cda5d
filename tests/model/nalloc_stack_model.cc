// Model of the stack of clean pages and of parked heaps (designs/nalloc/index_stack.h): threads
// that take pages, write them, and put them back.
//
// Invariants: a page is one thread's at a time, with what its last user wrote; none is lost, none
// doubled, though a page comes back while another thread still looks at its link.
// Bound: 3 threads, 3 pages, two takes and puts each.
#include "designs/nalloc/index_stack.h"
#include "runner.h"

namespace near::model {
namespace {

constexpr uint32_t kPages = 3;

Witness taken("pages taken");
Witness empty("stacks found empty");

struct Links {
  Atomic<uint32_t>* links;
  Atomic<uint32_t>& next(uint32_t index) const { return links[index]; }
};

// IndexStack without the tag.
struct Untagged {
  uint32_t pop(const Links& links) {
    uint32_t top = top_.load(kAcquire);
    while (top != 0) {
      const uint32_t next = links.next(top).load(kRelaxed);
      if (top_.compare_exchange_weak(top, next, kAcquire, kAcquire)) break;
    }
    return top;
  }
  void push(const Links& links, uint32_t index) {
    uint32_t top = top_.load(kRelaxed);
    do {
      links.next(index).store(top, kRelaxed);
    } while (!top_.compare_exchange_weak(top, index, kRelease, kRelaxed));
  }
  Atomic<uint32_t> top_{0};
};

class TakeAndPut : public rl::test_suite<TakeAndPut, 3> {
 public:
  void before() {
    for (uint32_t i = 1; i <= kPages; i++) {
      content_[i] = 1;
      push(i);
    }
  }

  void thread(unsigned) {
    uint32_t mine[2] = {pop(), choose(2) == 0 ? pop() : 0};
    for (const uint32_t page : mine) use(page);
    for (const uint32_t page : mine) put(page);
    const uint32_t again = pop();
    use(again);
    put(again);
  }

  void after() {
    bool seen[kPages + 1] = {};
    uint32_t count = 0;
    for (uint32_t page = pop(); page != 0 && count <= kPages; page = pop(), count++) {
      expect(!seen[page], "a page is there twice");
      seen[page] = true;
    }
    expect(count == kPages, "a page is lost");
  }

 private:
  void use(uint32_t page) {
    if (page == 0) {
      empty.note();
      return;
    }
    taken.note();
    content_[page] = content_[page] + 1;
  }
  void put(uint32_t page) {
    if (page != 0) push(page);
  }
  uint32_t pop() { return tagged() ? stack_.pop(links()) : untagged_.pop(links()); }
  void push(uint32_t page) {
    if (tagged()) {
      stack_.push(links(), page);
    } else {
      untagged_.push(links(), page);
    }
  }
  static bool tagged() { return !mutated("a pop leaves no trace in the top"); }
  Links links() { return Links{links_}; }

  nalloc::IndexStack stack_;
  Untagged untagged_;
  Atomic<uint32_t> links_[kPages + 1];
  Plain<uint32_t> content_[kPages + 1];
};

}  // namespace
}  // namespace near::model

int main(int count, char** arguments) {
  using namespace near::model;
  const Exploration explorations[] = {
      explore<TakeAndPut>("take and put", Bounded{1}),
      explore<TakeAndPut>("take and put", Random{300'000}),
  };
  const near::Mutation mutations[] = {
      {"a put does not release the page", "index_stack.h", "::push", rl::mo_release,
       rl::mo_relaxed},
      {"a take does not acquire the page", "index_stack.h", "::pop", rl::mo_acquire,
       rl::mo_relaxed},
      {"a pop leaves no trace in the top"},
  };
  return run_models(count, arguments, explorations, mutations);
}
