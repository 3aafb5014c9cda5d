// Never-used spans, in batches: one system call commits the addresses of a batch, another guards
// the memory behind its real spans, and then each span costs one exchange. A batch is a fourth of
// what its size and core have taken so far, so that few spans are prepared in vain.
//
//   a word = { number of the first span : 32 | guarded : 1 | spans : 31 }
// Invariant: there is a word for each real-span size and core; a span of the arena is in one word,
// or was taken from it, or is spare. Those in a word are guarded behind the real span of the word's
// size if the word says so; nothing is written to them, so their only memory is the page table's.
// Thread-safety: any thread; start once. [Aigner15 §3.2, figure 3 "expected"]
#pragma once

#include <cstddef>
#include <cstdint>

#include "designs/scalloc/lab.h"
#include "designs/scalloc/span.h"

namespace near::design::scalloc {

// Reserves the words. False if memory is refused.
bool start_fresh_spans(uint32_t cores);

// A span for real spans of `real_span` bytes, in whole pages, that have this index. Its
// `accessible` is set, the rest of it is zero. Null if memory is refused and every word is empty.
Span* take_fresh_span(Lab& lab, size_t real_span, uint32_t index, uint32_t core);

}  // namespace near::design::scalloc
