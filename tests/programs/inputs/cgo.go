// Goroutines that take blocks from C, hand them over a channel, and free them on other threads.
package main

/*
#include <stdlib.h>
#include <string.h>
static unsigned long weigh(const char* text) {
  char* copy = strdup(text);
  unsigned long sum = 0;
  for (char* c = copy; *c; ++c) sum = sum * 31 + (unsigned char)*c;
  free(copy);
  return sum;
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

func main() {
	runtime.GOMAXPROCS(4)
	blocks := make(chan unsafe.Pointer, 64)
	sums := make([]uint64, 8)
	var makers, takers sync.WaitGroup
	for taker := 0; taker < 4; taker++ {
		takers.Add(1)
		go func() {
			defer takers.Done()
			for block := range blocks {
				C.free(block)
			}
		}()
	}
	for maker := range sums {
		makers.Add(1)
		go func(maker int) {
			defer makers.Done()
			runtime.LockOSThread() // its thread ends with it
			for i := 0; i < 5000; i++ {
				text := C.CString(strings.Repeat("near", (i*maker)%200))
				sums[maker] += uint64(C.weigh(text))
				blocks <- unsafe.Pointer(text)
				blocks <- C.calloc(C.size_t(i%90+1), 16)
			}
		}(maker)
	}
	makers.Wait()
	close(blocks)
	takers.Wait()
	fmt.Println(sums)
}
