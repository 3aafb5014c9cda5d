#include "sweep_sizes.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

namespace workload {
namespace {

constexpr size_t kEntries = 1 << 14;          // of the table: a weight is right within 1 / 16384
constexpr size_t kLargest = size_t{1} << 31;  // an entry has 32 bits

}  // namespace

SizeMix::SizeMix(size_t smallest, size_t largest, size_t count, size_t bands) : bands_(bands) {
  std::vector<size_t> sizes;
  const double ratio = static_cast<double>(smallest) / static_cast<double>(largest);
  for (size_t i = 0; i < count; ++i) {
    const double part =
        count == 1 ? 0 : 1 - static_cast<double>(i) / static_cast<double>(count - 1);
    sizes.push_back(
        static_cast<size_t>(std::llround(static_cast<double>(largest) * std::pow(ratio, part))));
  }
  fill_quantiles(sizes, std::vector<double>(count, 1.0));
}

SizeMix::SizeMix(const std::string& file, size_t bands, std::string& problem) : bands_(bands) {
  std::vector<std::pair<size_t, double>> found;
  std::ifstream in(file);
  if (!in) problem = "--sizes-from: cannot read " + file;
  size_t number = 0;
  for (std::string line; problem.empty() && std::getline(in, line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    double size = 0, weight = 0;
    std::string surplus;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!(words >> size >> weight) || words >> surplus || size < 1 || size > kLargest ||
        weight <= 0) {
      problem = file + ":" + std::to_string(number) + ": not SIZE WEIGHT";
    }
    found.emplace_back(static_cast<size_t>(size), weight);
  }
  if (problem.empty() && found.empty()) problem = file + ": no sizes";
  if (!problem.empty()) return;
  std::sort(found.begin(), found.end());
  std::vector<size_t> sizes;
  std::vector<double> weights;
  for (const auto& [size, weight] : found) {
    sizes.push_back(size);
    weights.push_back(weight);
  }
  fill_quantiles(sizes, weights);
}

// Entry i is the size at the quantile (i + 1/2) / entries.
void SizeMix::fill_quantiles(const std::vector<size_t>& sizes, const std::vector<double>& weights) {
  // A whole number of entries for each of a few equally likely sizes makes them exactly so.
  width_ = std::max<size_t>(1, kEntries / (bands_ * sizes.size())) * sizes.size();
  const size_t entries = width_ * bands_;
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double below = weights[0];
  size_t at = 0;
  for (size_t i = 0; i < entries; ++i) {
    const double wanted = (static_cast<double>(i) + 0.5) / static_cast<double>(entries) * all;
    while (at + 1 < sizes.size() && below <= wanted) below += weights[++at];
    quantiles_.push_back(static_cast<uint32_t>(sizes[at]));
  }
}

double SizeMix::mean(size_t band) const {
  const auto first = quantiles_.begin() + static_cast<std::ptrdiff_t>(band * width_);
  const double sum = std::accumulate(first, first + static_cast<std::ptrdiff_t>(width_), 0.0);
  return sum / static_cast<double>(width_);
}

}  // namespace workload
