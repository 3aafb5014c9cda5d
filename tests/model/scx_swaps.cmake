# Statements of scx.hpp in the wrong order.
near_model_swap(scx impl/scx.hpp "nodes are finalized after the update has ended" [[
    for (unsigned i = 1; i < update.count; ++i) update.nodes[i]->finalize();
    update.nodes[0]->swing(update.index, update.old, update.replacement);
    return descriptor.end(tag, ScxState::committed);
]] [[
    update.nodes[0]->swing(update.index, update.old, update.replacement);
    const bool is_committed = descriptor.end(tag, ScxState::committed);
    for (unsigned i = 1; i < update.count; ++i) update.nodes[i]->finalize();
    return is_committed;
]])
near_model_swap(scx impl/scx.hpp "nodes are finalized before all are frozen" [[
    for (unsigned i = 0; i < update.count; ++i) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
]] [[
    for (unsigned i = 1; i < update.count; ++i) update.nodes[i]->finalize();
    for (unsigned i = 0; i < update.count; ++i) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
]])
near_model_swap(scx impl/scx.hpp "the pointer swings before all nodes are frozen" [[
    for (unsigned i = 0; i < update.count; ++i) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
]] [[
    update.nodes[0]->swing(update.index, update.old, update.replacement);
    for (unsigned i = 0; i < update.count; ++i) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
]])
near_model_swap(scx impl/scx.hpp "nodes are frozen from the last to the first" [[
    for (unsigned i = 0; i < update.count; ++i) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
]] [[
    for (unsigned i = update.count; i-- > 0;) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
]])
near_model_swap(scx impl/scx.hpp "an update is helped without a second look at its status" [[
    if (descriptor.is_in_progress(tag)) carry_out(descriptor, tag, update);
]] [[
    carry_out(descriptor, tag, update);
]])
near_model_swap(scx impl/scx.hpp "an update ends before its pointer swings" [[
    update.nodes[0]->swing(update.index, update.old, update.replacement);
    return descriptor.end(tag, ScxState::committed);
]] [[
    const bool is_committed = descriptor.end(tag, ScxState::committed);
    update.nodes[0]->swing(update.index, update.old, update.replacement);
    return is_committed;
]])
near_model_swaps(scx core)
