#include "designs/a2alloc/large_list.h"

#include "designs/a2alloc/free_refs.h"
#include "designs/a2alloc/page.h"

namespace near::design::a2alloc {

static_assert(Header::kLarge == design::PageRuns::kMark);

constinit design::PageRuns large_list{arena};

}  // namespace near::design::a2alloc
