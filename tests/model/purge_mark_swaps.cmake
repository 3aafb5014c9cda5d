# Statements of purge_signal.h in the wrong order.
near_model_swap(purge_mark node/purge_signal.h "a thread asks before it sets its mark" [[
    set_.store(true, kSeqCst);  // pairs: purge-signal
    signal.ask();
]] [[
    signal.ask();
    set_.store(true, kSeqCst);
]])
near_model_swaps(purge_mark core)
