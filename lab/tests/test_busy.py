"""A run that other work disturbed is noticed, repeated a few times, and marked."""

import os
import subprocess
from dataclasses import replace

import pytest

import results_file as make
from nearlab.measure import measure
from nearlab.peers import Allocator
from nearlab.plan.cells import Cell
from nearlab.report import page
from nearlab.report.build import contents_of, open_record
from nearlab.results import record
from nearlab.runs import busy, driver, interleave, probe
from nearlab.runs.busy import Reading
from nearlab.runs.work import Outcome

CELL = Cell(**(dict.fromkeys(Cell.__slots__) | {"name": "a", "threads": 1, "threads_each": 1}))
CALM = Reading(pressure_s=5.0, steal_s=1.0, others=0, at=10.0)


@pytest.fixture(scope="module")
def sample() -> measure.Sample:
    """A run of a second."""
    return replace(measure.run_child(["true"]), wall_s=1.0, waited_s=0.0, involuntary_switches=3)


@pytest.fixture(autouse=True)
def two_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def after(**changes) -> Reading:
    return replace(CALM, at=CALM.at + 1, **changes)


def test_a_calm_run_is_not_disturbed(sample):
    assert busy.disturbance(CELL, sample, CALM, after(pressure_s=5.05)) is None
    assert busy.disturbance(CELL, None, CALM, after()) is None
    assert busy.disturbance(CELL, sample, CALM, replace(CALM, others=1, at=11)) is None


@pytest.mark.parametrize(
    "cell,run,reading,found",
    [
        ({}, {"waited_s": 0.06}, {}, "it waited for a processor for 6% of the time"),
        ({}, {}, {"pressure_s": 5.11}, "tasks waited for a processor for 11% of the time"),
        ({}, {"involuntary_switches": 300}, {}, "a thread was preempted 300 times a second"),
        ({}, {}, {"steal_s": 1.10}, None),
        ({}, {}, {"steal_s": 1.13}, "the host took 6% of the processors"),
        ({"threads": 8}, {"waited_s": 0.5}, {"pressure_s": 6, "steal_s": 1.0}, None),
        ({"threads": 8}, {}, {"steal_s": 1.2}, "the host took 9% of the processors"),
        ({"real_program": "redis"}, {"waited_s": 0.5}, {"pressure_s": 6}, None),
    ],
)
def test_what_disturbs_a_run_is_told(sample, cell, run, reading, found):
    wanted = replace(sample, **run)
    assert busy.disturbance(replace(CELL, **cell), wanted, CALM, after(**reading)) == found


@pytest.mark.parametrize("cell", [{"threads": 2}, {"threads": 9}, {"real_program": "redis"}])
def test_other_tasks_that_leave_too_few_processors_disturb(sample, cell):
    found = busy.disturbance(
        replace(CELL, **cell), sample, replace(CALM, others=1), after(others=2)
    )
    assert found == "1 other task ran on 2 processors"


def test_a_program_that_shares_its_processor_waits_for_it(monkeypatch):
    monkeypatch.undo()
    all_cpus = os.sched_getaffinity(0)
    rival = None
    try:
        os.sched_setaffinity(0, {min(all_cpus)})
        rival = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        loop = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
        shared = measure.run_child(["sh", "-c", loop])
    finally:
        os.sched_setaffinity(0, all_cpus)
        if rival:
            rival.kill()
            rival.wait()
    if shared.waited_s is None:
        pytest.skip("this kernel does not count waiting")
    assert shared.waited_s > 0.2 * shared.wall_s
    assert shared.wall_s == pytest.approx(shared.cpu_s + shared.waited_s, rel=0.35)


def one_step(monkeypatch, sample, disturbances: list[str | None], repeats_left: int) -> dict:
    """The record of one run for which the kernel said this, try by try."""
    told = iter(disturbances)
    monkeypatch.setattr(driver, "touch_memory", lambda: None)
    monkeypatch.setattr(probe, "take", lambda: 0.01)
    monkeypatch.setattr(busy, "disturbance", lambda *_: next(told))

    class Bench:
        def run(self, cell, allocator):
            return Outcome({"seconds": 1.0}, None, {}, sample)

    one = driver.Driver(None, [], [], Bench())
    one._repeats_left = repeats_left
    step = interleave.Step(1, CELL, Allocator("glibc", "glibc", None, "2"))
    return one._run(step) | {"left": one._repeats_left}


@pytest.mark.parametrize(
    "told,repeats_left,disturbed,repeats,left",
    [
        ([None], 5, None, 0, 5),
        (["noise", None], 5, None, 1, 4),
        (["noise", "noise", "noise"], 5, "noise", 2, 3),
        (["noise", "noise"], 1, "noise", 1, 0),
    ],
)
def test_a_disturbed_run_is_repeated_a_few_times_then_marked(
    monkeypatch, sample, told, repeats_left, disturbed, repeats, left
):
    found = one_step(monkeypatch, sample, told, repeats_left)
    again = [{"disturbed": "noise", "metrics": {"seconds": 1.0}}] * repeats
    assert (found["disturbed"], found["discarded"], found["left"]) == (disturbed, again, left)


def content(disturbed: set[int], rounds: int) -> list[dict]:
    lines = [make.plan_line(["glibc", "nearmalloc"], [make.cell("churn")], rounds=rounds)]
    for number in range(1, rounds + 1):
        for name in ("glibc", "nearmalloc"):
            slow = number in disturbed and name == "glibc"
            metrics = {"seconds": 9.0 if slow else 1.0, "memory_kib": 2000.0}
            line = make.run_line("churn", name, number, metrics)
            lines.append(line | {"disturbed": "noise" if slow else None})
    return lines


def test_disturbed_runs_do_not_count_where_enough_others_are_left(tmp_path):
    path = make.write(tmp_path / "quick" / "a.jsonl", content({1, 2}, 7))
    found = record.read(path)
    assert list(found.series("churn", "glibc", "seconds").values()) == [1.0] * 5
    assert not found.busy("churn", "glibc") and len(found.disturbed()) == 2


def test_a_cell_that_needs_its_disturbed_runs_is_marked_and_the_page_warns(tmp_path):
    path = make.write(tmp_path / "quick" / "a.jsonl", content({1, 2}, 6))
    analysis, frame = open_record(path)
    assert analysis.record.busy("churn", "glibc")
    contents = contents_of(analysis, frame)
    notes = {row.note for row in contents.heat_maps[0].rows if row.allocator == "glibc"}
    assert notes == {"busy machine"}
    text = page.render(analysis, frame, contents)
    assert "A busy machine." in text and "Fewer than five rounds" not in text
    calm = make.write(tmp_path / "quick" / "b.jsonl", content(set(), 3))
    analysis, frame = open_record(calm)
    text = page.render(analysis, frame, contents_of(analysis, frame))
    assert "A busy machine." not in text and "Fewer than five rounds" in text
