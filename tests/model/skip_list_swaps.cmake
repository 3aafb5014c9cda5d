# Statements of skip_walk.hpp in the wrong order.
near_model_swap(skip_list impl/skip_walk.hpp "the link is read again before the node is held" [[
      guard_.hold(slot_, current_);
      // pairs: skip-link
      const bool is_linked = before_[level_].load(kAcquire) == word_of(current_);
      return is_linked && still_holds(guard_);
]] [[
      const bool is_same = before_[level_].load(kAcquire) == word_of(current_);
      guard_.hold(slot_, current_);
      return is_same;
]])
near_model_swap(skip_list impl/skip_walk.hpp "the last walk passes level 0 alone" [[
  walk.seek(node.probe(), std::max<unsigned>(top, node.height), 0);
]] [[
  walk.seek(node.probe(), 1, 0);
]])
near_model_swap(skip_list impl/skip_walk.hpp "a search goes down from a removed node" [[
      if ((next & kRemovedBit) == 0) {
        if (!current->precedes(probe)) break;
        before = current->links();
      }
]] [[
      if (!current->precedes(probe)) break;
      before = current->links();
]])
near_model_swap(skip_list impl/skip_walk.hpp "a removed node is linked on the second level" [[
      if ((next & kRemovedBit) != 0) return;
      // relaxed: released by the link that leads here
      if (!link.compare_exchange_strong(next, word_of(walk.node()), kRelaxed, kRelaxed)) return;
]] [[
      link.store(word_of(walk.node()), kRelaxed);
]])
near_model_swaps(skip_list reclaim)
