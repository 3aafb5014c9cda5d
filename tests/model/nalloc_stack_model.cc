// Model of sync/tagged_stack.h as the stack of clean pages and of parked heaps: threads
// that take pages, write them, and put them back.
//
// Invariants: a page belongs to one thread at a time, with what its last user wrote; no page is
// lost or doubled, even if it comes back while another thread still reads its link.
// Bound: 3 threads, 3 pages, two takes and puts each.
#include "numbered_stack.h"
#include "runner.h"

namespace near::model {
namespace {

constexpr uint32_t kPages = 3;

Witness taken("pages taken");
Witness empty("stacks found empty");

class TakeAndPut : public rl::test_suite<TakeAndPut, 3> {
 public:
  void before() {
    for (uint32_t i = 1; i <= kPages; i++) {
      content_[i] = 1;
      stack_.push(i);
    }
  }

  void thread(unsigned) {
    uint32_t mine[2] = {stack_.pop(), choose(2) == 0 ? stack_.pop() : 0};
    for (const uint32_t page : mine) use(page);
    for (const uint32_t page : mine) put(page);
    const uint32_t again = stack_.pop();
    use(again);
    put(again);
  }

  void after() {
    bool seen[kPages + 1] = {};
    uint32_t count = 0;
    for (uint32_t page; count <= kPages && (page = stack_.pop()) != 0; count++) {
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
    if (page != 0) stack_.push(page);
  }

  NumberedStack<kPages> stack_;
  Plain<uint32_t> content_[kPages + 1];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<TakeAndPut>("take and put", Bounded{1}),
    explore<TakeAndPut>("take and put", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"a put does not release the page", "tagged_stack.h", "::push", kRelease, kRelaxed},
    {"a take does not acquire the page", "tagged_stack.h", "::pop", kAcquire, kRelaxed},
    {kUntagged},
};

}  // namespace near::model
