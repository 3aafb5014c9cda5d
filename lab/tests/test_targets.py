"""A target is reached only at the unfavourable edge, and never with a missing result."""

import pytest

from nearlab import rows, targets
from nearlab.cases import Results, Run
from nearlab.peers import Allocator

NAMES = ("glibc", "nearmalloc", "mimalloc3", "mimalloc2", "jemalloc")
ALLOCATORS = [Allocator(name, name, None, "1") for name in NAMES]
METRICS = {
    "seconds": 1.0,
    "memory_kib": 10_000.0,
    "live_kib": 1000.0,
    "heap_rested_kib": 1000.0,
    "retained_kib_per_thread": 100.0,
}


def results(
    changes: dict[tuple[str, str, str], float], skip: tuple[str, str] = ("", "")
) -> Results:
    """Nine equal rounds; `changes` maps (row or *, allocator, metric) to a value."""
    runs = []
    for row in rows.ROWS:
        for name in NAMES:
            own = {(n, m): v for (r, n, m), v in changes.items() if r in (row, "*")}
            metrics = {metric: own.get((name, metric), value) for metric, value in METRICS.items()}
            failure = "crash" if (row, name) == skip else None
            runs += [Run(row, name, number, metrics, failure, None) for number in range(1, 10)]
    return Results(runs, ALLOCATORS)


def verdict(found: Results, target: str) -> targets.Verdict:
    (only,) = [v for v in targets.verdicts(found, None) if v.target.startswith(target)]
    return only


GOOD = {
    ("*", "nearmalloc", "seconds"): 0.8,
    ("fragmentation random", "glibc", "heap_rested_kib"): 2000.0,
}
ALL_BUT_INSTRUCTIONS = 10


def test_good_results_reach_every_target():
    reached = [v.reached for v in targets.verdicts(results(GOOD), None)]
    assert reached == [None, None] + [True] * ALL_BUT_INSTRUCTIONS


@pytest.mark.parametrize(
    "target,row,metric,value",
    [
        ("time, all rows", "*", "seconds", 0.86),
        ("time, multi", "*", "seconds", 0.96),
        ("time: no row", "large", "seconds", 1.16),
        ("memory: geometric", "*", "memory_kib", 10_100.0),
        ("memory: no row", "churn", "memory_kib", 15_100.0),
        ("90 % freed in", "fragmentation stretches", "heap_rested_kib", 1310.0),
        ("90 % freed at", "fragmentation random", "heap_rested_kib", 1510.0),
        ("idle process", "idle", "memory_kib", 10_301.0),
        ("start-up", "start-up", "seconds", 1.16),
        ("200 idle", "idle threads", "retained_kib_per_thread", 1025.0),
    ],
)
def test_each_target_is_missed_just_beyond_its_limit(target, row, metric, value):
    found = verdict(results(GOOD | {(row, "nearmalloc", metric): value}), target)
    assert found.reached is False


def test_a_row_may_be_half_as_large_again_when_that_is_little():
    changes = {("churn", name, "memory_kib"): 2000.0 for name in NAMES}
    changes["churn", "nearmalloc", "memory_kib"] = 3900.0
    assert verdict(results(GOOD | changes), "memory: no row").reached is True


def test_a_failed_row_is_not_measured():
    found = verdict(results(GOOD, skip=("churn", "nearmalloc")), "time, all rows")
    assert found.reached is None and "crash" in found.found


def test_instruction_limits_are_inclusive_and_complete():
    limits = {key: float(limit) for key, limit in targets.INSTRUCTION_LIMITS.items()}
    verdicts = targets.verdicts(None, {"nearmalloc": limits})
    assert [v.reached for v in verdicts] == [True, True]
    over = limits | {("pair", 256): 36.1}
    assert [v.reached for v in targets.verdicts(None, {"nearmalloc": over})] == [False, True]
    partial = {key: value for key, value in limits.items() if key != ("batch", 16)}
    assert targets.verdicts(None, {"nearmalloc": partial})[1].reached is None
