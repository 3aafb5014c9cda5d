// The backend: all virtual spans. Free spans are kept in an array with an entry for each real-span
// size, which is an array of Treiber stacks, one for each core.
//
// Invariant: a span in a stack and all its blocks are free, and no thread has it; beyond page 0,
// which holds the header, nothing of it is resident above `touched`.
// Thread-safety: any thread; start once. [Aigner15 §3.2, §3.3, listing 1]
#pragma once

#include "designs/scalloc/lab.h"
#include "designs/scalloc/span.h"
#include "designs/shared/arena.h"

namespace near::design::scalloc {

// The arena of virtual spans. Every free reads its start and mark.
NEAR_HIDDEN extern Arena arena;

// Spans by number, from 1 on in address order, as stacks store them.
inline Span& span_at(uint32_t number) {
  return *reinterpret_cast<Span*>(arena.start() + (number - size_t{1}) * settings.virtual_span);
}
inline uint32_t number_of(const Span& span) {
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(&span) - arena.start()) /
                               settings.virtual_span) +
         1;
}
struct SpanLinks {
  Atomic<uint32_t>& next(uint32_t number) const { return span_at(number).pool_link; }
};

// Reserves the arena, and room for the stacks. False if memory is refused.
bool start_span_pool();

// Puts a free span, which no other thread has, into the pool. `lab` is that of the calling thread.
void put_in_pool(Lab& lab, Span& span);

// A span for the class, not yet assigned, accessible as far as its real span: from the pool or from
// the arena. Null if there is none.
Span* get_from_pool(Lab& lab, unsigned size_class);

// Gives back all pages of free spans except the first. True if there were any.
bool trim_pool();

// How many stacks of a real-span size have ever been used.
size_t used_stacks(uint32_t real_span_index);

// Calls `visit` for every span that has been used or prepared.
template <typename Visit>
void for_each_span(Visit visit) {
  const uintptr_t end = arena.start() + arena.taken();
  for (uintptr_t at = arena.start(); at < end; at += settings.virtual_span) {
    visit(*reinterpret_cast<Span*>(at));
  }
}

}  // namespace near::design::scalloc
