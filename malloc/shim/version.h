// The version as text.
// Thread-safety: constant.
#pragma once

#include "nearmalloc/nearmalloc.h"

#define NEAR_TEXT_OF(x) #x
#define NEAR_TEXT(x) NEAR_TEXT_OF(x)
#define NEAR_VERSION_TEXT       \
  NEAR_TEXT(NEAR_VERSION_MAJOR) \
  "." NEAR_TEXT(NEAR_VERSION_MINOR) "." NEAR_TEXT(NEAR_VERSION_PATCH)
