# Statements of batches.hpp in the wrong order.
near_model_swap(batches impl/batches.hpp "the era is noted after the fence" [[
  note_era(words, era);
  list.store(open_end<Node>(), kRelaxed);  // relaxed: ordered by the fence
  light_fence(asymmetric);
]] [[
  list.store(open_end<Node>(), kRelaxed);
  light_fence(asymmetric);
  note_era(words, era);
]])
near_model_swap(batches impl/batches.hpp "a list is opened after the fence" [[
  list.store(open_end<Node>(), kRelaxed);  // relaxed: ordered by the fence
  light_fence(asymmetric);
]] [[
  light_fence(asymmetric);
  list.store(open_end<Node>(), kRelaxed);
]])
near_model_swap(batches impl/batches.hpp "a node is read after its reference was dropped" [[
    Node* const next = node->next;
    if (batch->references.fetch_sub(1, kAcqRel) == 1) f(*batch);  // pairs: batch-references
    node = next;
]] [[
    if (batch->references.fetch_sub(1, kAcqRel) == 1) f(*batch);
    node = node->next;
]])
near_model_swap(batches impl/batches.hpp "a node gets its successor when it is on the list" [[
  do {
    if (first == nullptr) return false;
    node.next = first;
  } while (!list.compare_exchange_weak(first, &node, kAcqRel, kAcquire));  // pairs: batches
]] [[
  do {
    if (first == nullptr) return false;
  } while (!list.compare_exchange_weak(first, &node, kAcqRel, kAcquire));
  node.next = first;
]])
near_model_swaps(batches reclaim)
