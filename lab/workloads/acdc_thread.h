// One thread of ACDC: it allocates its sets, reads the live sets, and frees each set whose last
// reader it is.
//
// Each set is timed separately. Allocation time is malloc with the stamp; access time is linking,
// reading and unlinking; deallocation time is free of objects that unlinking has just read.
// Invariant: in quantum q a thread uses the sets of the quanta q - L + 1 .. q of every thread, and
// fills those of its own q. A ring of L + 1 quanta keeps the two apart although threads may be one
// barrier apart. Thread-safety: only its thread; other threads use its sets as in acdc_set.h.
#pragma once

#include <vector>

#include "acdc_options.h"
#include "acdc_set.h"
#include "workload.h"

namespace acdc {

struct Totals {
  uint64_t allocation_ns, access_ns, deallocation_ns;
  size_t objects, bytes, lists, sets, remote_frees, damaged_sets;
  size_t smallest, largest;

  void add(const Totals& other);
};

class Thread {
 public:
  Thread(const Options& options, size_t id);

  void allocate(workload::Worker& worker, size_t quantum);
  // Reads the live sets of all threads, beginning with a random thread; frees those that end.
  void read_and_free(workload::Worker& worker, std::vector<Thread>& all, size_t quantum);

  const Totals& totals() const { return totals_; }
  size_t metadata_bytes() const;

 private:
  struct Quantum {
    Quantum(const Options& options)
        : objects(options.objects_of_a_quantum()), sets(options.sets_of_a_quantum()) {}
    workload::Table<Object> objects;
    workload::Table<Set> sets;
    size_t set_count = 0;
  };

  void make_set(Set& set, size_t quantum);
  void read_sets_of(workload::Worker& worker, Thread& owner, size_t made, size_t quantum);
  void free_set(workload::Worker& worker, Set& set, bool is_remote);

  const Options& options_;
  size_t id_;
  workload::Random random_;        // what is allocated
  workload::Random order_random_;  // which thread's sets are read first
  std::vector<Quantum> quanta_;
  size_t tags_ = 0;
  Totals totals_{};
};

}  // namespace acdc
