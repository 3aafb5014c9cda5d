# Statements of ordered_list.hpp in the wrong order, where a walk goes from one section to the next.
near_model_swap(sections impl/ordered_list.hpp "the link is read before the next section" [=[
  if (!begins_section(guard, steps, node, (next & kRemovedBit) == 0)) [[likely]]
    return true;
  next = node->next.load(kAcquire);  // pairs: list-link
  return (next & kRemovedBit) == 0;
]=] [=[
  const uintptr_t before = node->next.load(kAcquire);
  if (!begins_section(guard, steps, node, (next & kRemovedBit) == 0)) return true;
  next = before;
  return (next & kRemovedBit) == 0;
]=])
near_model_swap(sections impl/ordered_list.hpp "a walk goes on from a node that is removed" [=[
    if (!keeps_place(guard_, steps_, current_, next)) return false;
]=] [=[
    (void)keeps_place(guard_, steps_, current_, next);
]=])
near_model_swap(sections impl/ordered_list.hpp "a search goes on from a node that is removed" [=[
      if (!keeps_place(guard, steps, node, next)) next = head.load(kAcquire);  // pairs: list-link
      node = node_of<Node>(next);
]=] [=[
      (void)keeps_place(guard, steps, node, next);
      node = node_of<Node>(next);
]=])
near_model_swap(sections impl/ordered_list.hpp "a visit goes on from a node that is removed" [=[
      if (!keeps_place(guard, steps, node, next)) {
        if (!is_before) {
          from = node->probe();  // the slot holds the node, which was visited
          is_past = true;
        }
        next = head.load(kAcquire);  // pairs: list-link
      }
]=] [=[
      (void)keeps_place(guard, steps, node, next);
]=])
near_model_swap(sections impl/ordered_list.hpp "a visit forgets where it was" [=[
        if (!is_before) {
          from = node->probe();  // the slot holds the node, which was visited
          is_past = true;
        }
]=] [=[
]=])
near_model_swap(sections impl/ordered_list.hpp "a walk goes on with the link it read before" [=[
    current_ = node_of<Node>(next);
    slot_ ^= 1;
]=] [=[
    current_ = next_;
    slot_ ^= 1;
]=])
near_model_swaps(sections reclaim)
