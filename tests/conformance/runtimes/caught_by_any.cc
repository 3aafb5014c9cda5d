// A program that names no class of exception but their base: linked statically, its C++ runtime
// comes without std::bad_alloc.
#include <cstring>
#include <exception>

#include "check.h"

int main() {
  int caught = 0;
  try {
    delete[] new char[impossible()];
  } catch (const std::exception& error) {
    caught += std::strcmp(error.what(), "std::bad_alloc") == 0 ? 1 : 0;
  }
  try {
    delete[] new char[impossible()];
  } catch (...) {
    caught++;
  }
  CHECK(caught == 2);
  std::printf("cases: %d\n", cases);
  return 0;
}
