"""Every row runs, does the same work under every allocator, and names the malloc that served it."""

import pytest

from nearlab import cases, peers, rows
from nearlab.cases import Case

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
    "idle_threads": ["--threads", "4", "--sleep", "1"],
    "idle": [],
}


def tiny(row: rows.Row) -> Case:
    case = row.case(quick=False)
    return Case(row.name, [*case.argv, *TINY[row.argv[0]]], metrics=case.metrics)


@pytest.mark.parametrize("name", rows.ROWS)
def test_a_row_does_equal_work_under_all_allocators(found, name):
    case = tiny(rows.ROWS[name])
    for allocator in found.values():
        if allocator.available and allocator.group != "bound":  # its buffer may be too small
            run = cases.run_once(case, allocator, 1)
            assert run.failure is None, f"{allocator.name}: {run.failure} {run.sample.stderr}"
            assert run.metrics["memory_kib"] > 500 and run.metrics["seconds"] >= 0


def test_fragmentation_frees_nine_tenths_both_ways(found):
    for pattern in ("stretches", "random"):
        run = cases.run_once(tiny(rows.ROWS[f"fragmentation {pattern}"]), found["glibc"], 1)
        assert run.metrics["live_kib"] == pytest.approx(400_000 / 1024, rel=0.06)


def test_rows_are_selected_by_the_start_of_their_name():
    assert [row.name for row in rows.select(["larson"])] == ["larson 2", "larson 8"]
    assert [row.name for row in rows.select(["start_up", "idle"])] == [
        "start-up",
        "idle threads",
        "idle",
    ]
    assert len(rows.select([])) == len(rows.ROWS)
    with pytest.raises(KeyError, match="unknown row"):
        rows.select(["nothing"])


def test_other_work_than_the_runs_before_is_refused(found):
    case = tiny(rows.ROWS["churn"])
    more = Case(case.name, [*case.argv[:-1], "10001"], metrics=case.metrics)
    assert cases.run_once(case, found["glibc"], 1).failure is None
    assert "checksum" in cases.run_once(more, found["glibc"], 1).failure


def test_unknown_allocators_are_named():
    with pytest.raises(KeyError, match="unknown allocator"):
        peers.find("bumpmalloc")


def test_versions_are_what_the_libraries_say(found):
    expected = {"mimalloc3": "3.", "mimalloc2": "2.", "jemalloc": "5.", "tcmalloc": "2."}
    for name, start in expected.items():
        assert found[name].missing or found[name].version.startswith(start)
