/* A library that opens another by its name alone, as its RUNPATH allows it, and the program's does
 * not. */
#include <dlfcn.h>
#include <stddef.h>

void* open_beside(int mode);
void* open_beside(int mode) {
  void* volatile beside =
      dlopen("libbeside.so", mode); /* no tail call: this library is the caller */
  return beside;
}
