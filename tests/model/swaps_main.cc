// The main program of a model whose headers have the faults of <model>_swaps.cmake compiled in: it
// tries each of them, or one by its name, and under each a suite has to fail.
#include "runner.h"
#include "swaps.h"  // written by CMake: kSwaps

int main(int count, char** arguments) {
  using namespace near::model;
  return run_mutations(kExplorations, kSwaps, count > 1 ? arguments[1] : nullptr);
}
