// Holds blocks that C functions allocate, which Go calls (tests/process/frames.py).
package main

/*
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void *plant_inner(size_t size) {
  return memset(malloc(size), 1, size);
}
__attribute__((noinline)) static void *plant_outer(size_t size) {
  void *volatile block = plant_inner(size);
  return block;
}
*/
import "C"

import "unsafe"

var kept []unsafe.Pointer

func main() {
	for i := 0; i < 1000; i++ {
		kept = append(kept, C.plant_outer(3000))
		kept = append(kept, C.malloc(3000))
	}
	if len(kept) != 2000 {
		panic("blocks are missing")
	}
}
