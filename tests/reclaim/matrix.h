// The suite that every structure passes under every scheme and every reclaim policy: its rows.
// matrix_test.cc holds the tests, matrix_<structure>_test.cc the rows of a structure.
//
// Invariant: a row is one structure under one scheme; the structure ends before its domain.
// Thread-safety: only the thread that runs the test uses it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "any_set.h"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/schemes.hpp"
#include "reporting_domain.h"

namespace near_test {

namespace reclaim = near::reclaim;

class MatrixTrial : public Trial {
 public:
  virtual void barrier() = 0;
  virtual reclaim::statistics collect() = 0;
};

struct Cell {
  const char* scheme;
  bool leaks;
  int64_t keys;  // how many the structure is made for
  std::unique_ptr<MatrixTrial> (*make)(const reclaim::options&);
};

class Matrix : public testing::TestWithParam<Cell> {};

inline std::string name_of(const testing::TestParamInfo<Cell>& row) { return row.param.scheme; }

template <class Structure, class Scheme, class Domain = reclaim::domain<Scheme>>
class MatrixTrialOf final
    : public TrialOf<typename Structure::template set<Domain>, Domain, MatrixTrial> {
 public:
  explicit MatrixTrialOf(const reclaim::options& settings)
      : TrialOf<typename Structure::template set<Domain>, Domain, MatrixTrial>(settings) {}
  void barrier() override { this->domain_.barrier(); }
  reclaim::statistics collect() override { return this->domain_.collect(); }
};

template <class Structure, class Scheme, class Domain = reclaim::domain<Scheme>>
Cell cell(const char* scheme) {
  constexpr bool kLeaks = Scheme::traits.scheme == reclaim::impl::Scheme::leaky;
  return {scheme, kLeaks, Structure::kKeys,
          [](const reclaim::options& settings) -> std::unique_ptr<MatrixTrial> {
            return std::make_unique<MatrixTrialOf<Structure, Scheme, Domain>>(settings);
          }};
}

// `Structure` has a template `set<Domain>` and says for how many keys it is.
template <class Structure>
std::vector<Cell> all_schemes() {
  using reclaim::announce;
  using reclaim::pass;
  return {cell<Structure, reclaim::leaky>("leaky"),
          cell<Structure, reclaim::debra<announce::before_free>>("debra_before_free"),
          cell<Structure, reclaim::debra<announce::after_free>>("debra_after_free"),
          cell<Structure, reclaim::checkpoints>("checkpoints"),
          cell<Structure, reclaim::qsbr, ReportingDomain>("qsbr"),
          cell<Structure, reclaim::token<pass::after_free>>("token_after_free"),
          cell<Structure, reclaim::token<pass::before_free>>("token_before_free"),
          cell<Structure, reclaim::token<pass::while_freeing>>("token_while_freeing"),
          cell<Structure, reclaim::hazard_pointers>("hazard_pointers"),
          cell<Structure, reclaim::ping_epochs>("ping_epochs"),
          cell<Structure, reclaim::ibr>("ibr"),
          cell<Structure, reclaim::hyaline>("hyaline")};
}

}  // namespace near_test
