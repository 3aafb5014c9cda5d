// What can be done with one span: carve it, look at its pages, check it.
// Who may touch it: the span's owner (or whoever holds a threadless owner's lock).
#pragma once

#include "span/layout.h"

namespace near {

// Makes a run of slices a span of `size_class` with all blocks uncarved. Owner, list and count are
// the heap's business.
void form_span(Span& span, unsigned size_class, bool clean);

// Links the blocks of the lowest uncarved pages onto *list: of one page, or of several if they were
// touched before, so that this costs no fault. The span has an uncarved page.
void carve(Span& span, Block** list);

// Gives the pages on which every block is free back to the system: takes their blocks off `local`
// and marks them uncarved. Returns the bytes given back. The span is cold and its blocks are
// smaller than a page.
size_t purge_free_pages(Span& span);

// How many blocks hang from `list` of this span; more than capacity if the list is broken.
uint32_t count_list(const Span& span, const Block* list);

// How many blocks are uncarved.
uint32_t count_uncarved(const Span& span);

// The free blocks of a span whose list is `list`, the uncarved ones included.
inline uint32_t count_free(const Span& span, const Block* list) {
  return count_list(span, list) + count_uncarved(span);
}

// True if `block` is the start of a block of this span.
bool is_block(const Span& span, const void* block);

}  // namespace near
