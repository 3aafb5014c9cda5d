// Model of sync/tagged_stack.h as the span-pool uses it: threads take spans out, use
// them, and put them back.
//
// Invariants: a span is with one thread or in the stack, and none is lost; a thread that takes a
// span out sees what was written to it before it was put.
// Bound: 3 threads, 3 spans, of which 2 are in the stack at first; 2 or 3 takes each.
#include "numbered_stack.h"
#include "runner.h"

namespace near::model {
namespace {

constexpr uint32_t kSpans = 3;

struct Span {
  Plain<uint32_t> uses;
  Atomic<uint32_t> users;
};

class TakeAndPut : public rl::test_suite<TakeAndPut, 3> {
 public:
  void before() {
    for (Span& span : spans_) {
      span.uses = 0;
      span.users.store(0, kRelaxed);
    }
    push(1);
    push(2);
  }

  void thread(unsigned index) {
    if (index == 0) {
      use(3);
      push(3);
    }
    // Takes two out and puts them back in the same order, which causes ABA.
    const uint32_t first = pop();
    const uint32_t second = index != 0 ? pop() : 0;
    if (first != 0) push(first);
    if (second != 0) push(second);
  }

  void after() {
    uint32_t found = 0;
    uint32_t uses = 0;
    while (const uint32_t number = pop()) {
      found++;
      expect(found <= kSpans, "a span is in the stack twice");
      if (found > kSpans) return;
      uses += spans_[number - 1].uses;
    }
    expect(found == kSpans, "a span is lost");
    expect(uses == uses_.load(kRelaxed), "what was written to a span is lost");
  }

 private:
  void push(uint32_t number) {
    spans_[number - 1].users.store(0, kRelaxed);
    stack_.push(number);
  }

  uint32_t pop() {
    const uint32_t number = stack_.pop();
    if (number != 0) use(number);
    return number;
  }

  void use(uint32_t number) {
    Span& span = spans_[number - 1];
    expect(span.users.exchange(1, kRelaxed) == 0, "a span is with two threads");
    span.uses = span.uses + 1;
    uses_.fetch_add(1, kRelaxed);
  }

  NumberedStack<kSpans> stack_;
  Span spans_[kSpans];
  Atomic<uint32_t> uses_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<TakeAndPut>("take and put", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {kUntagged},
    {"push does not release the span", "tagged_stack.h", "::push", kRelease, kRelaxed},
    {"pop does not acquire the span", "tagged_stack.h", "::pop", kAcquire, kRelaxed},
};

}  // namespace near::model
