// For tests of ibr and hyaline: objects that know their birth, and a domain that looks at batches.
#pragma once

#include <cstddef>

#include "every_scheme.h"

namespace near_test {

struct Born : CountedObject, near::reclaim::born {};

inline near::reclaim::options batches_of(size_t objects) {
  near::reclaim::options settings;
  settings.batch_size = objects;
  settings.reclaim = near::reclaim::policy::batch();
  return settings;
}

}  // namespace near_test
