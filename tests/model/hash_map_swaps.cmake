# Statements of hash_map.hpp and bucket_table.hpp in the wrong order.
near_model_swap(hash_map hash_map.hpp "a bucket counts as linked before its dummy is" [[
    impl::list_walk<node, guard_type> walk(guard, from);
    while (!walk.seek(mine.dummy.probe()) && !walk.insert(&mine.dummy)) {
    }
    mine.state.store(kLinked, kRelease);  // pairs: bucket
]] [[
    mine.state.store(kLinked, kRelease);
    impl::list_walk<node, guard_type> walk(guard, from);
    while (!walk.seek(mine.dummy.probe()) && !walk.insert(&mine.dummy)) {
    }
]])
near_model_swap(hash_map hash_map.hpp "a bucket counts as linked before its dummy has its order" [[
    if (mine.dummy.order != order) mine.dummy.order = order;
]] [[
    mine.state.store(kLinked, kRelease);
    if (mine.dummy.order != order) mine.dummy.order = order;
]])
near_model_swaps(hash_map reclaim)
