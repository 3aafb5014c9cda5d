// What the allocator prints about a wrong free.
// Thread-safety: one test at a time; the option `invalid` is back at its default afterwards.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "nearmalloc/nearmalloc.h"
#include "support/cases.h"

namespace near_test {

// What a wrong free prints, with the option `invalid` at `report`.
inline std::string said_of(const std::function<void()>& wrong) {
  near_set_option("invalid", 1);
  testing::internal::CaptureStderr();
  wrong();
  std::string said = testing::internal::GetCapturedStderr();
  near_set_option("invalid", 0);
  count_cases();
  return said;
}

}  // namespace near_test
