"""Goals: the judging functions on numbers worked out by hand, results that are kept, the command on
four processors, and the workloads and counts that goals need."""

import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nearmanycore import cause, goals, judge, kept, machines, plan, subjects, workloads
from nearmanycore.application import app
from nearmanycore.goals import Choice
from nearmanycore.judge import Cores, Goal, Numbers, Point, Runs
from nearmanycore.plan import PlanError
from nearmanycore.simulate import Request

ALLOCATORS = ("near", "a", "b")
CORES = Cores(cores=4, threads=2)  # of a machine of 8 processors


def goal(kind: str, **keys: Any) -> Goal:
    return Goal.model_validate(
        {"name": "g", "kind": kind, "workloads": ["w"], "at": ["m/8"], "least": 1.0} | keys
    )


def judged(wanted: Goal, runs: Runs) -> list[judge.Row]:
    return judge.judge([wanted], runs, ALLOCATORS, lambda _: CORES)


def at(processors: int, workload: str = "w", machine: str = "m") -> Point:
    return Point(workload, machine, processors)


# --- linear ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("processors", "full"), [(1, 0), (4, 0), (5, 1), (8, 4)])
def test_the_second_threads_of_cores_come_last(processors: int, full: int) -> None:
    assert CORES.full(processors) == full
    assert Cores(cores=4, threads=1).full(4) == 4


@pytest.mark.parametrize(("processors", "expected"), [(1, 10), (4, 40), (6, 2 * 10 + 2 * 12)])
def test_linear_counts_cores_with_one_and_with_two_busy_threads(
    processors: int, expected: float
) -> None:
    runs = {("near", at(1)): Numbers(10), ("near", at(2, machine="m-core")): Numbers(12)}
    assert judge.linear(runs, "near", at(processors), CORES) == expected


def test_a_full_machine_needs_no_run_of_one_thread() -> None:
    runs = {("near", at(2, machine="m-core")): Numbers(12)}
    assert judge.bases(at(8), CORES) == [at(2, machine="m-core")]
    assert judge.linear(runs, "near", at(8), CORES) == 4 * 12
    assert judge.linear(runs, "near", at(4), CORES) is None


@pytest.mark.parametrize(("mops", "reached"), [(43.2, True), (43, False)])
def test_a_share_of_linear(mops: float, reached: bool) -> None:
    runs = {
        ("near", at(2, machine="m-core")): Numbers(12),
        ("near", at(8)): Numbers(mops, cause="lock"),
    }
    row = judged(goal("linear", least=0.9), runs)[0]
    assert row.value == pytest.approx(mops / 48)
    assert row.reached is reached
    assert row.cause == ("" if reached else "lock")


# --- peers ----------------------------------------------------------------------------------------


def test_the_best_peer_counts() -> None:
    runs = {("near", at(8)): Numbers(30), ("a", at(8)): Numbers(20), ("b", at(8)): Numbers(25)}
    row = judged(goal("peers"), runs)[0]
    assert (row.best, row.share, row.reached) == (("b", 25), 30 / 25, True)
    row = judged(goal("peers", peers=["a"]), runs)[0]
    assert row.best == ("a", 20)


def test_a_run_that_is_missing_reaches_nothing() -> None:
    assert not judged(goal("peers"), {("a", at(8)): Numbers(20)})[0].reached
    assert not judged(goal("peers"), {("near", at(8)): Numbers(20)})[0].reached
    assert not judged(goal("waiting", least=None, most=0.05), {})[0].reached


def test_a_group_has_its_mean_at_each_point() -> None:
    runs = {
        ("near", at(8, "v")): Numbers(10), ("near", at(8, "w")): Numbers(40),
        ("a", at(8, "v")): Numbers(4), ("a", at(8, "w")): Numbers(50),
        ("b", at(8, "v")): Numbers(8), ("b", at(8, "w")): Numbers(18),
    }  # fmt: skip
    rows = judged(goal("peers", workloads=["v", "w"]), runs)
    assert [row.point.workload for row in rows] == ["v", "w", "geometric mean"]
    assert [row.reached for row in rows] == [True, False, True]
    assert rows[2].value == pytest.approx(20)
    assert rows[2].best == ("a", pytest.approx(math.sqrt(200)))
    del runs["a", at(8, "w")]
    assert judged(goal("peers", workloads=["v", "w"]), runs)[2].best == ("b", pytest.approx(12))


def test_times_of_today() -> None:
    runs = {("near", at(8)): Numbers(30)}
    assert judged(goal("times", today={"w": 3.0}, least=10), runs)[0].reached
    assert not judged(goal("times", today={"w": 3.1}, least=10), runs)[0].reached


# --- numbers of one allocator ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "most", "field"),
    [
        ("waiting", 0.05, "line_share"),
        ("transfers", 1.4, "transfers"),
        ("kept", 1024, "kept_kib"),
        ("idle", 64, "idle_kib"),
    ],
)
def test_at_most(kind: str, most: float, field: str) -> None:
    wanted = goal(kind, least=None, most=most)
    for value, reached in ((most, True), (most * 1.01, False), (math.nan, False)):
        runs = {("near", at(8)): Numbers(1, **{field: value}, line="l", cause="c")}
        runs["a", at(8)] = Numbers(1, **{field: 3})
        runs["b", at(8)] = Numbers(1, **{field: 2})
        row = judged(wanted, runs)[0]
        assert row.reached is reached
        assert row.best == ("b", 2), "less is better"
    assert row.cause == ("l" if kind == "waiting" else "c")


def test_far_accesses_are_shown_beside() -> None:
    runs = {("near", at(8)): Numbers(30, far=2.5), ("a", at(8)): Numbers(20, far=0.5)}
    rows = judged(goal("peers", far=True), runs)
    text = goals.markdown(rows, "near")
    assert "| 30 Mop/s, 2.5 far | a 20 Mop/s, 0.5 far | 1.50 | at least 1 | yes |  |" in text
    assert text.endswith("Reached: 1 of 1 goals, 1 of 1 rows.\n")


# --- what was waited for --------------------------------------------------------------------------


def record(**keys: Any) -> dict[str, Any]:
    return {
        "measured": {"ns": 100.0}, "processors": 2, "lines": [], "locks": [], "calls": [],
        "modules": [], "counts": {"waited_address_space": 0.0},
    } | keys  # fmt: skip


def test_the_lock_that_the_allocator_waits_for_is_named() -> None:
    lock = {"address": "0x10", "kind": "mutex", "waited": 90.0, "site": "0x1"}
    made = record(
        locks=[lock | {"waited_allocator": 20.0}],
        lines=[{"address": "0x40", "parts": [], "blocks": [], "waited": 90.0,
                "waited_allocator": 10.0}],
        calls=[{"name": "madvise", "ns": 50.0}],
    )  # fmt: skip
    line = cause.worst_line(made, Path("lib.so"))
    assert line.share == pytest.approx(0.1)
    assert line.name.startswith("mutex 0x10")
    assert cause.worst(made, Path("lib.so")) == cause.Cause(0.25, "madvise")


def test_a_share_of_waiting_is_at_most_1() -> None:
    lock = {"address": "0x10", "kind": "mutex", "site": "0x1", "waited_allocator": 9000.0}
    assert cause.worst_line(record(locks=[lock]), Path("lib.so")).share == 1
    assert cause.worst(record(), Path("lib.so")).share == 0


# --- the file and the command ---------------------------------------------------------------------


def test_the_goals_name_what_there_is() -> None:
    wanted = goals.load()
    assert set(wanted.allocators) <= set(subjects.names())
    assert set(wanted.workload) <= {name for each in wanted.goal for name in each.workloads}
    for each in wanted.goal:
        assert set(each.workloads) <= set(workloads.all_of_them())
        assert set(each.peers or []) <= set(wanted.allocators)
        assert (each.least is None) != (each.most is None)
        assert each.kind != "times" or set(each.today) == set(each.workloads)
        for point in each.points():
            assert point.processors <= machines.load(point.machine).machine.processors


def test_spare_processors_remain_where_there_are_many() -> None:
    change = goals.Change(spare=4)
    assert [change.threads(number, 1) for number in (192, 9, 8, 1)] == [188, 5, 8, 1]
    assert goals.Change().threads(1, 2) == 2


def test_one_core_of_a_machine() -> None:
    core = goals.machine_of("xeon-8160x4-core")
    assert core.name == "xeon-8160x4-core"
    assert (core.machine.processors, core.machine.nodes) == (2, 1)
    assert goals.cores_of("xeon-8160x4") == Cores(96, 2)


def test_each_run_is_wanted_once() -> None:
    wanted = goals.points(goals.load())
    assert len(wanted) == len(set(wanted))
    assert ("near", Point("private-warm", "xeon-8160x4-core", 2)) in wanted
    few = goals.chosen(goals.load(), Choice(only=("larson",), allocators="near,jemalloc", most=4))
    assert goals.points(few) == [
        (name, Point("larson", machine, 4))
        for name in ("near", "jemalloc")
        for machine in ("xeon-8160x4", "epyc-256")
    ]


def test_unknown_workloads_are_refused() -> None:
    with pytest.raises(PlanError, match="no goal has the workload none"):
        goals.chosen(goals.load(), Choice(only=("none",)))


@pytest.mark.parametrize("text", ["title = ", 'title = "a"', 'title = "a"\nextra = 1'])
def test_malformed_goals_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match="g.toml"):
        goals.load(tmp_path / "g.toml")


def test_the_command_runs_keeps_and_judges(tmp_path: Path) -> None:
    words = ["goals", "--only", "private-warm,neighbour-frees", "--processors", "4"]
    words += ["--scale", "0.1", "--allocators", "near,mimalloc2", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert "| blocks freed elsewhere, ahead | neighbour-frees | xeon-8160x4, 4 |" in first.stdout
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    again = CliRunner().invoke(app, words)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == files
    words += ["--from", str(tmp_path / "partial.csv")]
    shown = CliRunner().invoke(app, words)
    assert again.stdout.endswith(shown.stdout) or shown.stdout in again.stdout
    assert shown.stdout.startswith("| goal, simulated |")


def test_other_files_are_no_results(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    for path in (tmp_path / "other.csv", tmp_path / "none.csv"):
        done = CliRunner().invoke(app, ["goals", "--from", str(path)])
        assert done.exit_code == 2


# --- results that are kept ------------------------------------------------------------------------


def request(**keys: Any) -> Request:
    near = subjects.find("near")[0]
    made: dict[str, Any] = {"seed": 1, "scale": 1.0} | keys
    machine = machines.load("epyc-256")
    return Request("larson", workloads.load("larson"), near, machine, 2, 2, **made)


def test_a_kept_result_belongs_to_arguments_and_libraries() -> None:
    assert kept.key(request()) == kept.key(request())
    others = [request(seed=2), request(scale=0.5), request(more=("--low", "8"))]
    assert len({kept.key(each) for each in [request(), *others]}) == 4


# --- what the engine counts for goals -------------------------------------------------------------


def run_of(name: str, processors: int, scale: float, folder: Path) -> dict[str, Any]:
    near = subjects.find("near")[0]
    named, keys = machines.load("xeon-8160x4"), workloads.load(name)
    threads = max(processors, keys.least)
    return kept.run(Request(name, keys, near, named, processors, threads, scale=scale), folder)


NEW = [
    "private-warm", "mixed-blocks", "tree-token", "shared-table", "shared-table-batch",
]  # fmt: skip


@pytest.mark.parametrize("name", NEW)
def test_each_workload_runs(tmp_path: Path, name: str) -> None:
    made = run_of(name, 2, 0.02, tmp_path)
    assert made["workload"]["operations"] > 0
    assert 0 < made["measured"]["ns"] <= made["virtual_ns"]
    assert float(goals.row(made)["mops"]) > 0


def test_what_is_measured_excludes_the_warm_up(tmp_path: Path) -> None:
    made = run_of("private-warm", 2, 0.1, tmp_path)
    seconds = made["workload"]["seconds"]
    assert made["measured"]["ns"] == pytest.approx(seconds * 1e9, rel=0.05)
    assert made["workload"]["operations"] == 2 * (1000 + 100)
    assert made["counts"]["l1"] < 2 * 1100 * 200


def test_memory_that_idle_threads_keep(tmp_path: Path) -> None:
    keys = workloads.load("idle-threads")
    few = keys.model_copy(update={"arguments": [*keys.arguments, "--threads", "20"]})
    near, named = subjects.find("near")[0], machines.load("xeon-8160x4")
    made = kept.run(Request("idle-threads", few, near, named, 4, 4, scale=0.05), tmp_path)
    shown = goals.row(made)
    assert 0 < float(shown["idle_kib"]) < 1 << 20
    assert made["workload"]["rss_before_kib"] > 0


def test_transfers_of_the_allocator_are_a_part(tmp_path: Path) -> None:
    counts = run_of("neighbour-frees", 4, 0.2, tmp_path)["counts"]
    assert 0 < counts["transfers_allocator"] < counts["transfer_near"] + counts["transfer_far"]


def test_rows_are_kept(tmp_path: Path) -> None:
    rows = [goals.row(run_of("shared-table", 2, 0.02, tmp_path))]
    goals.write(rows, tmp_path / "results.csv")
    assert goals.read(tmp_path / "results.csv") == rows
    with pytest.raises(PlanError):
        plan.read(tmp_path / "results.csv")
