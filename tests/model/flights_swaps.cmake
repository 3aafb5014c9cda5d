# Statements of flight_counts.hpp that are missing.
near_model_swap(flights impl/flight_counts.hpp "a barrier waits for the phase before alone" [[
    wait_for(phase, help);
]] [[
]])
near_model_swap(flights impl/flight_counts.hpp "a barrier waits for its own phase alone" [[
    wait_for(phase + 1, help);
]] [[
]])
near_model_swaps(flights reclaim)
