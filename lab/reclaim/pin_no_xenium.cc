// Replaces pin_xenium.cc in the workload `pin` if xenium is not installed.
#include "pin_subjects.h"

std::vector<reclaim_lab::Subject> reclaim_lab::xenium_subjects() { return {}; }
