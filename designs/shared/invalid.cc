// Reports a pointer that is none of a design's blocks; complements malloc/front/foreign.cc.
#include "front/invalid.h"

#include <cstdlib>

#include "base/compiler.h"
#include "platform/message.h"
#include "platform/options.h"

namespace near {

NEAR_COLD void report_invalid(const void* pointer, const char* what) {
  const auto reaction = static_cast<OnInvalid>(option(Option::invalid));
  if (reaction == OnInvalid::ignore) return;
  message("invalid free of %p: %s", pointer, what);
  if (reaction == OnInvalid::abort) abort();
}

}  // namespace near
