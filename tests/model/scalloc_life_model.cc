// Model of a span's life in scalloc (designs/scalloc/life_cycle.h): the frees of its last blocks by
// three threads, against its owner, which leaves it, makes it hot again, or ends.
//
// Invariants: the span enters the pool once, when its last block is free, whichever thread freed
// it, and never before; a thread that takes it out for another life is not disturbed by threads
// that still look at the last life. The four races of the published program violate them; each is
// a fault here.
// Bound: 3 threads, one span of 3 blocks, all live at first; at most two lives.
#include "scalloc_span.h"

namespace near::model {
namespace {

int32_t choose_reusable_at() { return static_cast<int32_t>(1 + choose(kBlocks + 1)); }

// The owner leaves its hot span before or after its own free, then allocates.
template <Reclaim kReclaim>
class LastFree : public FencedSuite<LastFree<kReclaim>> {
 public:
  void before() {
    frontend_.open(choose_reusable_at(), kReclaim);
    frontend_.start_life(span_, 0);
  }

  void thread(unsigned index) {
    if (index != 0) return frontend_.free(span_, &span_.blocks[index], index);
    const bool leaves_first = choose(2) == 0;
    if (leaves_first) frontend_.leave_hot(span_, 0);
    frontend_.free(span_, &span_.blocks[0], 0);
    if (!leaves_first) frontend_.leave_hot(span_, 0);
    frontend_.use_reusable(0);
  }

  void after() { frontend_.expect_free(span_); }

 private:
  Frontend frontend_;
  Span span_;
};

// The owner ends while the span is hot, floating or reusable; the others adopt the span.
template <Reclaim kReclaim>
class Termination : public FencedSuite<Termination<kReclaim>> {
 public:
  void before() {
    frontend_.open(choose_reusable_at(), kReclaim);
    frontend_.start_life(span_, 0);
  }

  void thread(unsigned index) {
    if (index != 0) {
      frontend_.free(span_, &span_.blocks[index], index);
      return frontend_.use_reusable(index);
    }
    frontend_.free(span_, &span_.blocks[0], 0);
    const bool is_hot = choose(2) == 0;
    if (!is_hot) frontend_.leave_hot(span_, 0);
    frontend_.terminate(is_hot ? &span_ : nullptr, 0);
  }

  void after() { frontend_.expect_free(span_); }

 private:
  Frontend frontend_;
  Span span_;
};

// The owner ends; another thread frees twice, and if it adopts the span, the second time locally.
class Adoption : public FencedSuite<Adoption> {
 public:
  void before() {
    frontend_.open(choose_reusable_at(), Reclaim::free);
    frontend_.start_life(span_, 0);
    is_hot_ = choose(2) == 0;
    if (!is_hot_) frontend_.leave_hot(span_, 0);
  }

  void thread(unsigned index) {
    if (index == 2) return frontend_.free(span_, &span_.blocks[2], 2);
    if (index == 0) return frontend_.terminate(is_hot_ ? &span_ : nullptr, 0);
    for (uint32_t i = 0; i < 2; i++) frontend_.free(span_, &span_.blocks[i], 1);
  }

  void after() { frontend_.expect_free(span_); }

 private:
  Frontend frontend_;
  Span span_;
  bool is_hot_ = false;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<LastFree<Reclaim::free>>("last free", Random{300'000}),
    explore<Termination<Reclaim::free>>("termination", Random{300'000}),
    explore<Adoption>("adoption", Random{300'000}),
    explore<LastFree<Reclaim::allocation>>("last free, reclaim in allocation", Random{100'000}),
    explore<Termination<Reclaim::allocation>>("termination, reclaim in allocation",
                                              Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    // Race 1: a span is both in the pool and in a set.
    {kUnlockedMark},
    // Race 2: the last frees still saw the span hot.
    {"who leaves a hot span does not look at it again"},
    {kAsPublished},
    {"leaving hot is not ordered with the look at the lists", "epoch.h", "::mark", kSeqCst,
     kAcqRel},
    {"a free is not ordered with the look at the epoch", "epoch.h", "::read", kSeqCst, kAcquire},
    // Race 3: a local and a remote free each see the other's block as still live.
    {"a local free is not ordered with the look at the remote list", "life_cycle.h", "::free_cold",
     kSeqCst, kRelaxed},
    {"the first remote free is not ordered with the look at the local list", "life_cycle.h",
     "::free_remote", kSeqCst, kRelaxed},
    {"the look at the local list is not ordered", "local_free_list.h", "::free", kSeqCst, kAcquire},
    {"the look at the remote list is not ordered", "remote_free_list.h", "::blocks", kSeqCst,
     kAcquire},
    // Race 4: spans of a thread that ended stay behind.
    {"spans stay reusable when their thread ends"},
};

}  // namespace near::model
