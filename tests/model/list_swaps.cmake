# Statements of ordered_list.hpp in the wrong order.
near_model_swap(list impl/ordered_list.hpp "the link is read again before the node is held" [[
      guard_.hold(slot_, current_);
      const bool is_linked = previous_->load(kAcquire) == word_of(current_);  // pairs: list-link
      return is_linked && still_holds(guard_);
]] [[
      const bool is_same = previous_->load(kAcquire) == word_of(current_);
      guard_.hold(slot_, current_);
      return is_same;
]])
near_model_swap(list impl/ordered_list.hpp "a node is linked before it has a successor" [[
    fresh->next.store(word_of(current_), kRelaxed);  // relaxed: not yet linked
    uintptr_t expected = word_of(current_);
    return previous_->compare_exchange_strong(  // pairs: list-link
        expected, word_of(fresh), kRelease, kRelaxed);
]] [[
    uintptr_t expected = word_of(current_);
    const bool done =
        previous_->compare_exchange_strong(expected, word_of(fresh), kRelease, kRelaxed);
    if (done) fresh->next.store(word_of(current_), kRelaxed);
    return done;
]])
near_model_swap(list impl/ordered_list.hpp "a node is removed before the other one is linked" [[
    fresh->next.store(word_of(next_), kRelaxed);  // relaxed: not yet linked
    uintptr_t expected = word_of(next_);
    if (!current_->next.compare_exchange_strong(  // pairs: list-link
            expected, word_of(fresh) | kRemovedBit, kRelease, kRelaxed)) {
      return false;
    }
]] [[
    if (!remove()) return false;
    fresh->next.store(word_of(next_), kRelaxed);
    current_->next.store(word_of(fresh) | kRemovedBit, kRelease);
]])
near_model_swap(list impl/ordered_list.hpp "a node is retired before it is unlinked" [[
    uintptr_t expected = word_of(current_);
    if (!previous_->compare_exchange_strong(  // pairs: list-link
            expected, word_of(next_), kRelease, kRelaxed)) {
      return false;
    }
    guard_.retire(static_cast<typename Node::removable_type*>(current_));
]] [[
    uintptr_t expected = word_of(current_);
    guard_.retire(static_cast<typename Node::removable_type*>(current_));
    if (!previous_->compare_exchange_strong(expected, word_of(next_), kRelease, kRelaxed)) {
      return false;
    }
]])
near_model_swap(list impl/ordered_list.hpp "a node is unlinked before it is removed" [[
  do {
    if (!walk.seek(probe)) return false;
  } while (!walk.remove());
  if (!walk.unlink()) walk.seek(probe);
]] [[
  do {
    if (!walk.seek(probe)) return false;
  } while (!walk.unlink());
  (void)walk.remove();
]])
near_model_swaps(list reclaim)
