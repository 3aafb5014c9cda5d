// The paper's words for a free block, and for a chain of them that moves as one. [Yang23 §3.5]
// Thread-safety: none; guarded by the structure that contains it.
#pragma once

#include "designs/shared/block_list.h"

namespace near::design::numalloc {

using Object = design::Block;
using Sublist = design::BlockList;

}  // namespace near::design::numalloc
