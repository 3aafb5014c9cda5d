// A set that loses one insert in a thousand, under the work of the set programs: the proof must
// fail. With --threads 1 nothing else can be wrong.
#include <set>

#include "set_work.h"

namespace {

class LyingSet {
 public:
  bool insert(reclaim_lab::Key key) {
    if (contains(key)) return false;
    if (++inserts_ % 1000 != 0) keys_.insert(key);
    return true;
  }
  bool erase(reclaim_lab::Key key) { return keys_.erase(key) == 1; }
  bool contains(reclaim_lab::Key key) const { return keys_.contains(key); }
  template <typename F>
  void for_each(F f) const {
    for (const reclaim_lab::Key key : keys_) f(key);
  }

 private:
  std::set<reclaim_lab::Key> keys_;
  size_t inserts_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  workload::Workload workload("lying_set", "loses keys");
  reclaim_lab::SetWork work(workload);
  workload.parse(argc, argv);
  work.check();
  LyingSet set;
  work.run(set);
  return workload.report();
}
