"""Orders are balanced, warm-up does not count, failures are kept, a wrong malloc is a failure."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from nearlab import interleave
from nearlab.cases import Case, Results, Run, measure_all, run_once
from nearlab.peers import Allocator

GLIBC = Allocator("glibc", "glibc", None, "2")
PRETENDER = Allocator("jemalloc", "jemalloc", None, "5")  # nothing is preloaded: glibc serves it
ABSENT = Allocator("mimalloc2", "mimalloc 2", None, "", "not found: on purpose")


def run(tmp_path: Path, cases: list[Case], allocators: list[Allocator], rounds: int = 2):
    raw = tmp_path / "raw.jsonl"
    results = measure_all(cases, allocators, rounds=rounds, raw=raw)
    return results, [json.loads(line) for line in raw.read_text().splitlines()]


@pytest.mark.parametrize("count", range(1, 9))
def test_everyone_takes_every_place_and_follows_everyone_else(count):
    turns = count if count % 2 == 0 else 2 * count
    orders = [interleave.balanced(range(count), turn) for turn in range(turns)]
    everyone = Counter(list(range(count)) * (turns // count))
    assert all(Counter(order[place] for order in orders) == everyone for place in range(count))
    after = Counter(pair for order in orders for pair in pairwise(order))
    assert len(after) == count * (count - 1) and len(set(after.values())) <= 1


def test_touched_memory_is_given_back():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1])

    before = resident()
    interleave.touch_memory(64)
    assert (resident() - before) * 4096 < 32 << 20


def test_every_run_is_kept_and_warm_up_is_not_counted(tmp_path):
    results, lines = run(tmp_path, [Case("a", ["true"]), Case("b", ["true"])], [GLIBC], rounds=3)
    assert len(lines) == 1 + 2 * 4 and [line["kind"] for line in lines[:2]] == ["start", "run"]
    assert len(results.series("a", "glibc", "seconds")) == 3
    assert results.cases() == ["a", "b"]


def test_the_first_line_names_machine_and_versions(tmp_path):
    _, lines = run(tmp_path, [Case("a", ["true"])], [GLIBC, ABSENT])
    start = lines[0]
    assert start["machine"]["kernel"] and start["machine"]["cpus"] > 0 and start["date"]
    assert [allocator["name"] for allocator in start["allocators"]] == ["glibc", "mimalloc2"]
    assert start["allocators"][1]["missing"] == "not found: on purpose"


def test_failures_are_kept_and_give_no_series(tmp_path):
    results, lines = run(tmp_path, [Case("bad", ["sh", "-c", "echo why >&2; exit 3"])], [GLIBC])
    assert results.failures("bad", "glibc") == ["exit code 3"] * 2
    assert results.series("bad", "glibc", "seconds") == []
    assert lines[-1]["failure"] == "exit code 3" and lines[-1]["stderr"] == "why\n"


def test_a_run_that_another_malloc_served_does_not_count(tmp_path):
    results, _ = run(tmp_path, [Case("a", ["true"])], [GLIBC, PRETENDER])
    assert results.failures("a", "jemalloc") == ["served by glibc"] * 2
    assert results.failures("a", "glibc") == []


def test_a_result_that_cannot_be_read_is_a_failure(tmp_path):
    def refuse(_):
        raise ValueError("no number")

    results, _ = run(tmp_path, [Case("a", ["true"], metrics=refuse)], [GLIBC])
    assert results.failures("a", "glibc") == ["unreadable result: no number"] * 2


def test_one_failed_round_spoils_the_series():
    sample = None
    runs = [
        Run("a", "glibc", number, {"seconds": 1.0}, failure, sample)
        for number, failure in ((0, "warm-up may fail"), (1, None), (2, "crash"), (3, None))
    ]
    assert Results(runs, [GLIBC]).series("a", "glibc", "seconds") == []
    assert Results(runs[:2], [GLIBC]).series("a", "glibc", "seconds") == [1.0]


def test_nothing_to_run_is_refused(tmp_path):
    for cases, allocators in (([], [GLIBC]), ([Case("a", ["true"])], [ABSENT])):
        with pytest.raises(ValueError, match="nothing to run"):
            run(tmp_path, cases, allocators)


def test_an_allocator_runs_with_the_environment_it_asks_for():
    asking = Allocator("glibc", "glibc", None, "", environment=(("LAB_ASKED", "yes"),))
    case = Case("ask", ["sh", "-c", "test $LAB_ASKED = yes"])
    assert run_once(case, asking, 1).failure is None
