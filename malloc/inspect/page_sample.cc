// Asks the kernel where a sample of the pages of spans lies.
#include "base/bits.h"
#include "front/thread.h"
#include "inspect/node_statistics.h"
#include "node/memory.h"
#include "platform/os.h"

namespace near {
namespace {

// Takes every n-th page that `show` passes to it, and asks the kernel about many pages at once.
class Sample {
 public:
  Sample(size_t stride, size_t most) : stride_(stride), left_(most) {}

  void show(unsigned node, char* page) {
    if (skip_ > 0) {
      skip_--;
      return;
    }
    if (left_ == 0) return;
    skip_ = stride_ - 1;
    left_--;
    pages_[count_] = page;
    nodes_[count_] = node;
    if (++count_ == kBatch) ask();
  }

  near_placement result() {
    if (count_ > 0) ask();
    return found_;
  }

 private:
  static constexpr size_t kBatch = 64;

  void ask() {
    int where[kBatch];
    const bool known = os::locate(pages_, count_, where);
    for (size_t i = 0; i < count_; i++) {
      const int believed = topology.kernel_id[nodes_[i]];
      uint64_t& sum = !known                 ? found_.refused
                      : where[i] < 0         ? found_.absent
                      : where[i] == believed ? found_.right
                                             : found_.wrong;
      sum++;
    }
    count_ = 0;
  }

  const size_t stride_;
  size_t left_;
  size_t skip_ = 0;  // pages to skip before the next one to take
  size_t count_ = 0;
  void* pages_[kBatch];
  unsigned nodes_[kBatch];
  near_placement found_{};
};

}  // namespace

near_placement sample_placement(size_t pages) {
  const size_t page = os::page_size();
  size_t all = 0;
  for (unsigned n = 0; n < topology.count; n++) all += nodes[n].totals().in_spans / page;
  pages = min_of(pages, all);
  if (pages == 0) return {};
  Sample sample(div_up(all, pages), pages);
  for (unsigned n = 0; n < topology.count; n++) {
    nodes[n].for_each_chunk([&](char* start, uint32_t used) {
      for (size_t offset = 0; offset < kChunkSize; offset += page) {
        if ((used >> (offset >> kSliceShift) & 1) != 0) sample.show(n, start + offset);
      }
    });
  }
  return sample.result();
}

}  // namespace near
