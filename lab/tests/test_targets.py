"""The plan `baseline`: its cells run, and a target is reached only at the unfavourable edge of its
interval, and never with a missing result."""

import json
from dataclasses import replace

import pytest

import results_file
from nearlab.plan import cells, plan
from nearlab.results import record, targets
from nearlab.runs.work import Bench

BASELINE = plan.load(plan.find("baseline"))
CELLS = {cell.name: cell for cell in cells.of_plan(BASELINE)}
TINY = {
    "threadtest": ["--rounds", "2"],
    "larson": ["--generations", "16", "--operations", "1000"],
    "producer_consumer": ["--blocks", "10000"],
    "churn": ["--operations", "10000"],
    "shbench_like": ["--operations", "20000"],
    "large_churn": ["--operations", "5"],
    "realloc_growth": ["--rounds", "1", "--limit", "4"],
    "thread_churn": ["--generations", "50"],
    "start_up": ["--times", "3"],
    "fragmentation": ["--megabytes", "4", "--sleep", "1"],
    "after_peak": ["--megabytes", "1", "--rest", "20", "--more", "0"],
    "idle_threads": ["--threads", "4", "--sleep", "1"],
}
NAMES = ("glibc", "nearmalloc", "mimalloc3", "mimalloc2", "jemalloc")
METRICS = {
    "seconds": 1.0,
    "memory_kib": 10_000.0,
    "idle_kib": 10_000.0,
    "live_kib": 1000.0,
    "heap_rested_kib": 1000.0,
    "after_peak_kib": 1000.0,
    "retained_kib_per_thread": 100.0,
}
GOOD = {
    ("*", "nearmalloc", "seconds"): 0.8,
    ("fragmentation random", "glibc", "heap_rested_kib"): 2000.0,
    ("after a peak", "glibc", "after_peak_kib"): 10_000.0,
}


def tiny(name: str) -> cells.Cell:
    cell = CELLS[name]
    return replace(cell, argv=[*cell.argv, *TINY[cell.program]])


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_does_equal_work_under_all_allocators(found, name):
    bench = Bench()
    for allocator in found.values():
        if allocator.available and allocator.group != "bound":  # its buffer may be too small
            outcome = bench.run(tiny(name), allocator)
            assert outcome.failure is None, f"{allocator.name}: {outcome.failure}"
            assert outcome.metrics["memory_kib"] > 500 and outcome.metrics["seconds"] >= 0


def test_other_work_than_the_runs_before_is_refused(found):
    bench = Bench()
    more = replace(tiny("churn"), argv=[*CELLS["churn"].argv, "--operations", "10001"])
    assert bench.run(tiny("churn"), found["glibc"]).failure is None
    assert "checksum" in bench.run(more, found["glibc"]).failure


def test_fragmentation_frees_nine_tenths_both_ways(found):
    for pattern in ("stretches", "random"):
        outcome = Bench().run(tiny(f"fragmentation {pattern}"), found["glibc"])
        assert outcome.metrics["live_kib"] == pytest.approx(400_000 / 1024, rel=0.06)


def test_start_up_says_what_an_idle_process_takes(found):
    outcome = Bench().run(tiny("start-up"), found["glibc"])
    assert 500 < outcome.metrics["idle_kib"] < 10_000


@pytest.fixture
def verdicts(tmp_path):
    """Verdicts on nine equal rounds; `changes` maps (cell or *, allocator, metric) to a value."""

    def judge(changes: dict[tuple[str, str, str], float], skip: tuple[str, str] = ("", "")):
        own_cells = [
            results_file.cell(cell.workload, threads=cell.threads) for cell in CELLS.values()
        ]
        for cell, name in zip(own_cells, CELLS, strict=True):
            cell["cell"] = name
        lines = [results_file.plan_line(list(NAMES), own_cells) | {"plan_toml": BASELINE.text}]
        for cell in CELLS:
            for name in NAMES:
                own = {(n, m): v for (c, n, m), v in changes.items() if c in (cell, "*")}
                metrics = {key: own.get((name, key), value) for key, value in METRICS.items()}
                failure = "crash" if (cell, name) == skip else None
                lines += [
                    results_file.run_line(cell, name, number, metrics, failure=failure)
                    for number in range(1, 10)
                ]
        path = tmp_path / "result.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return targets.verdicts(record.read(path))

    return judge


def verdict(found: list[targets.Verdict], target: str) -> targets.Verdict:
    (only,) = [one for one in found if one.target.startswith(target)]
    return only


def test_good_results_reach_every_target(verdicts):
    found = verdicts(GOOD)
    assert [one.reached for one in found] == [True] * 11
    assert targets.table(found).caption == "11 of 11 reached"


@pytest.mark.parametrize(
    "target,cell,metric,value",
    [
        ("time, all rows", "*", "seconds", 0.86),
        ("time, multi", "*", "seconds", 0.96),
        ("time: no row", "large", "seconds", 1.16),
        ("memory: geometric", "*", "memory_kib", 10_100.0),
        ("memory: no row", "churn", "memory_kib", 15_100.0),
        ("90 % freed in", "fragmentation stretches", "heap_rested_kib", 1310.0),
        ("90 % freed at", "fragmentation random", "heap_rested_kib", 1510.0),
        ("95 % freed after", "after a peak", "after_peak_kib", 2010.0),
        ("idle process", "start-up", "idle_kib", 10_301.0),
        ("start-up", "start-up", "seconds", 1.16),
        ("200 idle", "idle threads", "retained_kib_per_thread", 1025.0),
    ],
)
def test_each_target_is_missed_just_beyond_its_limit(verdicts, target, cell, metric, value):
    found = verdicts(GOOD | {(cell, "nearmalloc", metric): value})
    assert verdict(found, target).reached is False


def test_a_cell_may_be_half_as_large_again_when_that_is_little(verdicts):
    changes = {("churn", name, "memory_kib"): 2000.0 for name in NAMES}
    changes["churn", "nearmalloc", "memory_kib"] = 3900.0
    assert verdict(verdicts(GOOD | changes), "memory: no row").reached is True


def test_a_failed_cell_is_not_measured(verdicts):
    found = verdict(verdicts(GOOD, skip=("churn", "nearmalloc")), "time, all rows")
    assert found.reached is None and "crash" in found.found


PAIRED = """
name = "paired"
rounds = 7
allocators = ["glibc", "nearmalloc"]
[[workload]]
program = "churn"
[[target]]
name = "one percent"
kind = "paired"
workloads = ["churn"]
at_most = 1.01
relative_to = "glibc"
"""


@pytest.fixture
def paired_verdict(tmp_path):
    """The verdict on a target of kind `paired`, of runs as (round, seconds of nearmalloc)."""

    def judge(runs: list[tuple[int, float]], disturbed: dict[str, set[int]]) -> targets.Verdict:
        cell = results_file.cell("churn")
        lines = [results_file.plan_line(["glibc", "nearmalloc"], [cell]) | {"plan_toml": PAIRED}]
        for number, seconds in runs:
            for name, found in (("glibc", 1.0), ("nearmalloc", seconds)):
                line = results_file.run_line(cell["cell"], name, number, {"seconds": found})
                mark = "by a test" if number in disturbed.get(name, ()) else None
                lines.append(line | {"disturbed": mark})
        path = tmp_path / "result.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (only,) = targets.verdicts(record.read(path))
        return only

    return judge


def test_paired_runs_are_judged_by_the_edge_of_the_mean_without_the_ends(paired_verdict):
    near = [1.004, 1.005, 1.005, 1.005, 1.005, 1.006]
    found = paired_verdict(list(enumerate([*near, 9.0], 1)), {})
    assert found.reached is False, found.found  # 9 may be drawn too often to be left out
    found = paired_verdict(list(enumerate([*near, 1.007], 1)), {})
    assert found.reached is True and found.found.startswith("1.0052 [1.00"), found.found
    found = paired_verdict([(number, 1.011) for number in range(1, 8)], {})
    assert found.reached is False and found.found == "1.0110 [1.0110, 1.0110]"


def test_disturbed_runs_count_where_too_few_pairs_are_calm(paired_verdict):
    runs = [(number, 1.0 if number <= 5 else 2.0) for number in range(1, 8)]
    assert paired_verdict(runs, {"glibc": {6, 7}}).found == "1.0000 [1.0000, 1.0000]"
    found = paired_verdict(runs, {"glibc": {6, 7}, "nearmalloc": {1, 2}})
    assert found.found.startswith("1.1487 [1.0000"), "of the five in the middle one is 2.0"
