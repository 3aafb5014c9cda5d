# Statements of epoch.hpp in the wrong order.
near_model_swap(epochs impl/epoch.hpp "the list of records is read before the fence" [[
    if (clock.fenced.load(kAcquire) < words.seen) {  // pairs: epoch-fenced
      heavy_fence(asymmetric);                       // pairs: epoch-fenced
      clock.fenced.store(words.seen, kRelaxed);      // relaxed: released by the fence
    }
    words.scanning = words.seen;
    words.cursor = head.load(kAcquire);  // pairs: records
]] [[
    words.cursor = head.load(kAcquire);
    if (clock.fenced.load(kAcquire) < words.seen) {
      heavy_fence(asymmetric);
      clock.fenced.store(words.seen, kRelaxed);
    }
    words.scanning = words.seen;
]])
near_model_swap(epochs impl/epoch.hpp "a fence is noted before it is executed" [[
      heavy_fence(asymmetric);                       // pairs: epoch-fenced
      clock.fenced.store(words.seen, kRelaxed);      // relaxed: released by the fence
]] [[
      clock.fenced.store(words.seen, kRelaxed);
      heavy_fence(asymmetric);
]])
near_model_swap(epochs impl/epoch.hpp "the epoch is read again before the announcement" [[
  words.announced.store(epoch << 1 | 1, kRelease);  // pairs: epoch-announce
  light_fence(asymmetric);
]] [[
  const bool is_current = clock.epoch.load(kRelaxed) == epoch;
  words.announced.store(epoch << 1 | 1, kRelease);
  light_fence(asymmetric);
  return is_current;
]])
near_model_swaps(epochs reclaim)
