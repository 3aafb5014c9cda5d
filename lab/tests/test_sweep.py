"""A sweep is announced, run, judged and drawn; its statistics are right on known numbers."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import results_file as make
from nearlab import places
from nearlab.compare.compare import Way
from nearlab.peers import Allocator
from nearlab.plan import cells as cells_module
from nearlab.plan import plan
from nearlab.report import documents
from nearlab.results import record
from nearlab.runs import command as run
from nearlab.sweeps import before, figures, gate, tables, verdicts
from nearlab.sweeps import command as summary
from nearlab.sweeps.verdicts import Sweep

NAMES = ("nearmalloc", "glibc", "tbb")
MIB = 1024  # KiB
# Microseconds of an operation, and MiB, by size and allocator.
POINTS = {
    16: {"nearmalloc": (1, 80), "glibc": (2, 100), "tbb": (4, 100)},
    17: {"nearmalloc": (1.2, 120), "glibc": (1, 100), "tbb": (2, 100)},
    32: {"nearmalloc": (2, 110), "glibc": (2, 100), "tbb": (1, 100)},
    33: {"nearmalloc": (3, 3), "glibc": (3, 1), "tbb": (3, 2)},
}


def a_cell(size: int, **options: str | int) -> dict:
    words = {"size": size} | options
    argv = ["/build/sweep", *(str(w) for k, v in words.items() for w in (f"--{k}", v))]
    return make.cell("sizes", x={"size": size}, group="size") | {"argv": argv}


def result(tmp_path: Path, points=POINTS, rounds: int = 5, cells=None, more=()) -> Path:
    cells = cells or [a_cell(size) for size in points]
    lines = [make.plan_line(list(NAMES), cells, rounds=rounds)]
    for (by_name, cell), number in itertools.product(
        zip(points.values(), cells, strict=True), range(1, rounds + 1)
    ):
        for name, (micros, mib) in by_name.items():
            metrics = {"seconds": micros * 1e-3, "operations": 1000, "heap_peak_kib": mib * MIB}
            metrics |= {"heap_full_kib": mib * MIB, "asked_kib": 72 * MIB}
            lines.append(make.run_line(cell["cell"], name, number, metrics))
    end = {"kind": "end", "date": "2026-11-21T11:00:00+00:00", "complete": True}
    return make.write(tmp_path / "sweep" / "20261121-100000.jsonl", [*lines, *more, end])


def judged(path: Path) -> dict[str, verdicts.Verdict]:
    found = verdicts.verdicts(summary.read(path, "nearmalloc"))
    return {one.target.partition(":")[0]: one for one in found}


def test_shares_and_means_are_those_of_the_points(tmp_path):
    # Time beside the best peer: 0.5, 1.2, 2, 1. Memory: 0.8, 1.2, 1.1, and a heap that is small.
    found = judged(result(tmp_path))
    assert found["time at most 1.10 of the best peer's"].value == 0.5
    assert found["time at most 1.25 of the best peer's"].value == 0.75
    assert found["fastest"].value == 0.5
    # glibc: 1/2, 6/5, 1, 1; tbb: 1/4, 3/5, 2, 1. Beside glibc it is slower.
    single = found["time beside the best single peer's, mean"]
    assert single.value == pytest.approx((0.5 * 1.2) ** 0.25) and "glibc" in single.found
    memory = found["memory at most 1.15 of the smallest peer's"]
    assert (memory.value, memory.points) == (pytest.approx(2 / 3), 3)
    mean = found["memory beside the smallest peer's, mean"]
    assert mean.value == pytest.approx((0.8 * 1.2 * 1.1) ** (1 / 3))
    assert [one.reached for one in found.values()] == [False] * 5 + [True, False]


def test_a_byte_costs_what_is_resident_and_small_blocks_are_rounded_up(tmp_path):
    # 72 MiB asked for: 80 / 72; 120 / (72 x 32 / 17); 110 / 72; 3 / (72 x 48 / 33).
    found = judged(result(tmp_path))["memory for a byte asked for, from 64 MiB on"]
    assert found.value == pytest.approx(110 / 72) and found.points == 4
    assert found.found == "1.53 (sizes size=32); 1 points are above"
    sweep = summary.read(result(tmp_path), "nearmalloc")
    costs = [verdicts.cost_of_a_byte(sweep, cell) for cell in sweep.record.cells]
    assert costs[1] == pytest.approx(120 * 17 / (72 * 32))


def test_the_lower_edge_of_an_interval_counts_for_shares(tmp_path):
    slow = [1.0, 1.05, 1.3, 1.3, 1.3, 1.05, 1.3]
    cell = a_cell(64)
    lines = [make.plan_line(["nearmalloc", "glibc"], [cell], rounds=7)]
    for number, seconds in enumerate(slow, 1):
        for name, value in (("nearmalloc", seconds), ("glibc", 1.0)):
            metrics = {"seconds": value, "operations": 1, "heap_peak_kib": 9000}
            lines.append(make.run_line(cell["cell"], name, number, metrics))
    path = make.write(tmp_path / "x.jsonl", lines)
    (point,) = Sweep.of(record.read(path), "nearmalloc").time
    assert point.ratio.value == pytest.approx(1.3) and point.ratio.low < 1.1
    assert point.at_most(1.1) and not point.is_best


def test_a_document_has_the_targets_and_the_curves(tmp_path):
    result(tmp_path).rename(tmp_path / "a.jsonl")
    text = "".join(
        f"<!-- table: {what} a.jsonl -->\n<!-- end of table -->\n" for what in ("sweep", "curves")
    )
    rows = documents.filled(text, tmp_path).splitlines()
    assert rows[1] == "| target | found | points | verdict |"
    assert rows[5] == "| fastest: 60% of the points | 50.0% | 4 | missed |"
    head, _, curve, _ = rows[-4:]
    assert head == "| class | curve | fastest | slowest point | smallest | largest point |"
    assert curve.startswith("| size | sizes | 2 of 4 | 2.0")
    result(tmp_path, {16: {"glibc": (1, 100), "tbb": (2, 100)}}).rename(tmp_path / "b.jsonl")
    with pytest.raises(record.RecordError, match="no sweep of an allocator of ours"):
        documents.filled(text.replace("a.jsonl", "b.jsonl"), tmp_path)


@pytest.mark.parametrize("rounds", [1, 4])
def test_few_rounds_judge_nothing(tmp_path, rounds):
    path = result(tmp_path, rounds=rounds)
    assert {one.reached for one in judged(path).values()} == {None}
    notes = list(tables.notes(summary.read(path, "nearmalloc")))
    assert any(f"rounds: {rounds}" in note for note in notes)


def test_runs_that_were_calm_in_different_rounds_are_not_too_few(tmp_path):
    busy = {"nearmalloc": (1, 2), "glibc": (3, 4), "tbb": (3, 4)}
    path = result(tmp_path, rounds=7)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "run" and line["round"] in busy[line["allocator"]]:
            line["disturbed"] = "another task ran"
    sweep = summary.read(make.write(path, lines), "nearmalloc")
    assert sweep.rounds == 7
    assert None not in {one.reached for one in verdicts.verdicts(sweep)[:3]}


def test_a_failure_reaches_nothing_and_a_peers_failure_is_no_peer(tmp_path):
    crash = make.run_line("sizes size=16", "nearmalloc", 3, failure="ended by SIGSEGV")
    gone = make.run_line("sizes size=32", "tbb", 3, failure="timed out")
    sweep = summary.read(result(tmp_path, more=[crash, gone]), "nearmalloc")
    first, _, third, _ = sweep.time
    assert first.ratio is None and not first.is_best and not first.at_most(100)
    assert first.problem == "ended by SIGSEGV"
    assert (third.peer, third.ratio.value) == ("glibc", 1)
    assert any("SIGSEGV" in note for note in tables.notes(sweep))


def test_a_rest_and_idle_threads_have_targets(tmp_path):
    cells = [
        a_cell(64, free=90, settle=10000),
        make.cell("idle", x={"idle": 200}, group="idle") | {"argv": ["/build/sweep"]},
    ]
    lines = [make.plan_line(["nearmalloc", "glibc"], cells, rounds=5)]
    for cell, number in itertools.product(cells, range(1, 6)):
        for name, kib in (("nearmalloc", 12_000), ("glibc", 10_000)):
            metrics = {"seconds": 1, "operations": 1, "heap_peak_kib": 50_000}
            metrics |= {"heap_rested_kib": kib, "kept_pages_kib": 10_000}
            lines.append(make.run_line(cell["cell"], name, number, metrics))
    found = judged(make.write(tmp_path / "x.jsonl", lines))
    rest = found["memory 10 s after freeing, beside pages with a live block"]
    assert (rest.value, rest.points, rest.reached) == (pytest.approx(1.2), 1, False)
    idle = found["memory with 200 idle threads, beside glibc's"]
    assert (idle.value, idle.reached) == (pytest.approx(1.2), True)


def test_rings_mark_the_points_where_a_peer_is_better(tmp_path):
    ((figure, frame),) = figures.curves(summary.read(result(tmp_path), "nearmalloc"))
    assert [panel.title for panel in figure.panels] == ["time", "peak memory"]
    time = figure.panels[0].chart.to_dict()
    (rings,) = [data for data in time["datasets"].values() if set(data[0]) == {"x", "value"}]
    assert [mark["x"] for mark in rings] == [17, 32]
    assert frame.subject == "nearmalloc" and figure.name == "sizes"


def test_words_on_an_axis_are_drawn(tmp_path):
    orders = ("lifo", "fifo")
    cells = [make.cell("order", x={"order": word}) for word in orders]
    path = result(tmp_path, dict(zip(orders, list(POINTS.values())[:2], strict=True)), cells=cells)
    written = figures.write(summary.read(path, "nearmalloc"), tmp_path / "drawn")
    assert [file.name for file in written] == ["order.png"]
    assert written[0].read_bytes().startswith(b"\x89PNG")


# --- the command ----------------------------------------------------------------------------------


def near(tmp_path: Path, *words: str | Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "NEAR_LAB_RESULTS": str(tmp_path)}
    command = [sys.executable, "-m", "nearlab", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_the_summary_is_printed_and_written(tmp_path):
    result(tmp_path)
    done = near(tmp_path, "sweep-summary", "--json", tmp_path / "out.json", "--all")
    assert done.returncode == 0, done.stderr
    assert "missed" in done.stdout and "1 of 7 reached" in done.stdout
    assert "1 heaps of at most 4 MiB" in done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert len(found["targets"]) == 7 and len(found["points"]) == 8
    assert found["points"][0]["ratio"] == 0.5 and found["points"][0]["peer"] == "glibc"


@pytest.mark.parametrize(
    "words,message",
    [
        (["nothing"], "nothing: neither a file nor a plan"),
        (["sweep", "--subject", "me"], "no allocator is called 'me'"),
        (["quick"], "no sweep"),
    ],
)
def test_what_is_no_sweep_is_refused(tmp_path, words, message):
    result(tmp_path)
    make.write(tmp_path / "quick" / "1.jsonl", make.rich_lines(("nearmalloc", "glibc"), 5))
    done = near(tmp_path, "sweep-summary", *words)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_without_nearmalloc_the_users_own_allocator_is_judged_here_and_by_the_gate(tmp_path):
    path = result(tmp_path)
    text = path.read_text().replace("nearmalloc", "mine")
    assert record.read(path).own_subject() == "nearmalloc"
    path.write_text(text)
    with pytest.raises(record.RecordError, match="--subject is needed, one of mine, glibc, tbb"):
        summary.read(path, None)
    first, *rest = text.splitlines(keepends=True)
    line = json.loads(first)
    line["allocators"][0]["group"] = "ours"
    path.write_text("".join([json.dumps(line) + "\n", *rest]))
    assert summary.read(path, None).subject == "mine"
    assert len(gate.changes(path, path, {Way.TIME: 0.03, Way.MEMORY: 0.02})) == 7


def test_a_small_sweep_runs_under_two_allocators(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text("""
name = "small"
rounds = 1
warm_up = 0
allocators = ["nearmalloc", "glibc"]
[[workload]]
program = "sweep"
name = "sizes"
options = { live = "8MiB", work = 1 }
sweep = { size = [64, 65, 4096] }
[[workload]]
program = "sweep"
name = "too large"
options = { live = "90000GiB" }
""")
    done = near(tmp_path, "run", file)
    assert done.returncode == 0, done.stderr
    assert "3 points under 2 allocators: 6 runs, about 1 minutes" in done.stderr
    assert "too large was not run: it may need" in done.stdout
    done = near(tmp_path, "sweep-summary", "small", "-o", tmp_path / "drawn")
    assert done.returncode == 0, done.stderr
    assert " of 3 " in done.stdout
    assert "too large was not run" in done.stdout
    assert (tmp_path / "drawn" / "sizes.png").is_file()


def test_the_commands_of_the_documents_work(tmp_path):
    chosen = ("--rounds", "1", "--allocators", "nearmalloc,glibc", "--only", "remote batch, 64 B*")
    for _ in range(2):
        done = near(tmp_path, "run", "--scale", "0.3", "sweep", *chosen)
        assert done.returncode == 0, done.stderr
    done = near(tmp_path, "sweep-summary", "-o", tmp_path / "curves")
    assert "not judged" in done.stdout and done.returncode == 0
    assert [file.name for file in (tmp_path / "curves").iterdir()] == ["remote-batch-64-B.png"]
    done = near(tmp_path, "compare", "sweep~1", "sweep", "--fail-on-regression")
    assert done.returncode == 2 and "unclear" in done.stdout


# --- the gate -------------------------------------------------------------------------------------


def slower(points: dict, factor: float) -> dict:
    return {
        size: {name: (t * factor if name == "nearmalloc" else t, m) for name, (t, m) in of.items()}
        for size, of in points.items()
    }


@pytest.mark.parametrize("factor,status", [(1.0, 0), (1.15, 1)])
def test_the_gate_judges_the_summary_too(tmp_path, factor, status):
    """15 % is within the threshold of each cell, but a quarter of the points leave the shares."""
    first = result(tmp_path / "a")
    second = result(tmp_path / "b", slower(POINTS, factor))
    options = ("--fail-on-regression", "--threshold-time", "20", "--json", tmp_path / "out.json")
    done = near(tmp_path, "compare", first, second, *options)
    assert "The summary of the sweep" in done.stdout and "0 certainly worse" in done.stdout
    assert done.returncode == status, done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert len(found["sweep"]) == 7 and found["regressions"] == 0
    worse = [one["target"].partition(":")[0] for one in found["sweep"] if one["worse"]]
    shares = ["time at most 1.10 of the best peer's", "time at most 1.25 of the best peer's"]
    assert worse == ([*shares, "fastest"] if status else [])


def test_few_rounds_make_the_summary_unclear_and_other_results_have_none(tmp_path):
    thresholds = {Way.TIME: 0.03, Way.MEMORY: 0.02}
    first = result(tmp_path / "a", rounds=3)
    second = result(tmp_path / "b", slower(POINTS, 2), rounds=3)
    assert {one.worse for one in gate.changes(first, second, thresholds)} == {None}
    other = make.write(tmp_path / "quick.jsonl", make.rich_lines(("nearmalloc", "glibc"), 5))
    assert gate.changes(other, other, thresholds) == []


# --- before it runs -------------------------------------------------------------------------------


def cells_of(text: str) -> list[cells_module.Cell]:
    head = 'name = "x"\nrounds = 7\nallocators = ["glibc"]\n'
    return cells_module.of_plan(plan.parse(head + text, "x"))


def test_the_length_of_a_sweep_is_told_before_it_starts():
    one = '[[workload]]\nprogram = "sweep"\n'
    there = Allocator("glibc", "glibc", None, "2")
    absent = Allocator("tbb", "tbb", None, "", "not found")
    cells = cells_of(one + 'options = { live = "1GiB", settle = 60000 }\n')
    told = before.announcement(cells, [there, absent], 0)
    assert told == (
        "1 points under 1 allocators: 7 runs, about 7 minutes on a machine of two processors"
    )
    other = cells_of('[[workload]]\nprogram = "larson"\n')
    assert before.announcement(other, [there], 0) is None
    assert before.no_room(other[0]) is None and before.no_room(cells[0]) is None


@pytest.mark.parametrize("share", [0.05, 0.34, 0.5, 1])
def test_a_share_of_each_row_is_chosen(share):
    row = '[[workload]]\nprogram = "sweep"\nname = "{}"\nsweep = {{ size = {} }}\n'
    cells = cells_of(row.format("a", list(range(1, 61))) + row.format("b", [1]))
    chosen = run.thinned(cells, share)
    own = [cell.x["size"] for cell in chosen if cell.workload == "a"]
    assert len(chosen) - len(own) == 1 and own[0] == 1
    assert len(own) == pytest.approx(60 * share, abs=1)
    if 0.3 < share < 1:  # of a row in pairs, both halves
        odd = sum(size % 2 for size in own)
        assert odd == pytest.approx(len(own) / 2, abs=2)


# --- the plans ------------------------------------------------------------------------------------


def edges() -> list[int]:
    """The edges of classes: multiples of 16 up to 128, then eight to a factor of two."""
    eighths = (128 * 2**power * (8 + part) // 8 for power in range(19) for part in range(8))
    return [*range(16, 128, 16), *eighths, 64 << 20]


def sizes_of(name: str) -> list[int]:
    cells = cells_module.of_plan(plan.load(plan.find(name)))
    return [cell.x["size"] for cell in cells if "size" in cell.x]


def test_the_sizes_of_the_plans_are_edges_and_a_byte_beyond():
    every = {size + more for size in edges() for more in (0, 1)}
    assert sorted(sizes_of("sweep-sizes")) == sorted(every)
    assert set(sizes_of("sweep")) <= every


def test_the_sizes_of_the_sweep_follow_a_rule():
    chosen = set(sizes_of("sweep"))
    for power in range(19):
        edge = 128 * 2**power * (8 + (1 + 3 * power) % 8) // 8
        assert {edge, edge + 1} <= chosen


def test_the_sweep_has_every_curve_and_a_name_for_each_class():
    cells = cells_module.of_plan(plan.load(plan.find("sweep")))
    axes = {axis for cell in cells for axis in cell.x} | {"threads"}
    swept = "size live threads idle order remote batch grow sizes sizes-from bands settle"
    assert axes == set(swept.split())
    assert 100 <= len(cells) <= 150
    assert all(cell.rounds >= 5 for cell in cells)
    text = (places.plans_dir() / "sweep.toml").read_text()
    assert "warm_up = 0" in text and "nearmalloc" in plan.load(plan.find("sweep")).allocators
