// The main program of each model: explores its suites, or tries its mutations, or one by its name.
#include <cstring>

#include "runner.h"

int main(int count, char** arguments) {
  using namespace near::model;
  if (count == 1) return run_suites(kExplorations);
  if (std::strcmp(arguments[1], "mutants") == 0) {
    return run_mutations(kExplorations, kMutations, count > 2 ? arguments[2] : nullptr);
  }
  std::fprintf(stderr, "usage: %s [mutants [name]]\n", arguments[0]);
  return 2;
}
