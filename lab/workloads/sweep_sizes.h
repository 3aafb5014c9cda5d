// The sizes of sweep's blocks: a few that are equally likely and equally far apart by ratio, or a
// distribution read from a file.
//
// Invariant: the quantile table is sorted, so a contiguous part of it is a band of sizes, and part
// b of `bands` equal parts has the b-th smallest sizes. Thread-safety: read-only once it is made.
#pragma once

#include <string>
#include <vector>

#include "random.h"

namespace workload {

class SizeMix {
 public:
  // `count` sizes from `smallest` to `largest`; one size is `largest`. `bands` divides them.
  SizeMix(size_t smallest, size_t largest, size_t count, size_t bands);
  // A file with a line "SIZE WEIGHT" for each size; `#` begins a comment. `problem` says in one
  // line what is wrong with the file, and is empty if nothing is.
  SizeMix(const std::string& file, size_t bands, std::string& problem);

  size_t pick(Random& random, size_t band) const {
    return quantiles_[band * width_ + random.below(width_)];
  }
  // The mean size of a band, and the smallest and the largest size of all.
  double mean(size_t band) const;
  size_t smallest() const { return quantiles_.front(); }
  size_t largest() const { return quantiles_.back(); }

 private:
  void fill_quantiles(const std::vector<size_t>& sizes, const std::vector<double>& weights);

  size_t bands_;
  size_t width_ = 1;  // entries of the table for a band
  std::vector<uint32_t> quantiles_;
};

}  // namespace workload
