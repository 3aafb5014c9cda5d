# Statements of window.cc that are wrong or missing.
near_model_swap(windows node/window.cc "chunks are given without the lock of windows" [[
    const LockGuard guard(lock);
    const size_t most = min_of(min_of(size_t{wish.wished}, left()), budget.left);
    if (most < wish.least) return 0;
    if (end() + most > table.end) continue;
    count = give(wish.least, static_cast<uint32_t>(most), first);
    if (count == 0) return 0;
    budget.left = budget.left - count;
]] [[
    const size_t most = min_of(min_of(size_t{wish.wished}, left()), budget.left);
    if (most < wish.least) return 0;
    if (end() + most > table.end) continue;
    count = give(wish.least, static_cast<uint32_t>(most), first);
    if (count == 0) return 0;
    budget.left = budget.left - count;
]])
near_model_swap(windows node/window.cc "the budget is charged after the lock" [[
    const LockGuard guard(lock);
    const size_t most = min_of(min_of(size_t{wish.wished}, left()), budget.left);
    if (most < wish.least) return 0;
    if (end() + most > table.end) continue;
    count = give(wish.least, static_cast<uint32_t>(most), first);
    if (count == 0) return 0;
    budget.left = budget.left - count;
]] [[
    lock.lock();
    const size_t most = min_of(min_of(size_t{wish.wished}, left()), budget.left);
    if (most >= wish.least && end() + most <= table.end) {
      count = give(wish.least, static_cast<uint32_t>(most), first);
    }
    lock.unlock();
    if (most < wish.least) return 0;
    budget.left = budget.left - count;
]])
near_model_swap(windows node/window.cc "chunks are given before they have descriptors" [[
  if (!describe(end)) return 0;
  first = this->end();
  end_.store(end, kRelaxed);                                     // relaxed: see `end`
  described_bytes_.store(size_t{end} << kChunkShift, kRelease);  // pairs: described
]] [[
  first = this->end();
  end_.store(end, kRelaxed);
  described_bytes_.store(size_t{end} << kChunkShift, kRelease);
  if (!describe(end)) return 0;
]])
near_model_swap(windows node/window.cc "the table is not compared again under the lock" [[
    if (end() + most > table.end) continue;
]] [[
]])
near_model_swap(windows node/window.cc "descriptors are bound before the chunks are given" [[
    count = give(wish.least, static_cast<uint32_t>(most), first);
]] [[
    bind_descriptors(end(), static_cast<uint32_t>(most), table.node);
    count = give(wish.least, static_cast<uint32_t>(most), first);
]])
near_model_swaps(windows core node/window.cc)
