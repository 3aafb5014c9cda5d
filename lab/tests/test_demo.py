"""The demo: its table, how runs of real programs are judged, and that no process is left behind.

Invariant: results go to a temporary folder; faults are always those of stand-ins (stand_in.c).
Thread-safety: pytest.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer

import results_file
from nearlab import peers, programs
from nearlab.demo import command as demo
from nearlab.demo import table as demo_table
from nearlab.peers import Allocator
from nearlab.programs import given, install
from nearlab.programs.base import PrepareError, Program, Run
from nearlab.results import record
from nearlab.runs.interleave import schedule
from nearlab.runs.progress import Watch
from nearlab.runs.work import Bench
from program_cells import cell_of

GLIBC = peers.find("glibc")
HERE = Path(__file__).resolve().parent
GOOD = "echo 1; exec true"  # a shell may end without running its exit handlers, `true` does not


class Shell(given._GivenCommand):
    """A program that is a line of shell."""

    def __init__(self, script: str, name: str = "python", tree: bool = False):
        argv = ["sh", "-c", script.replace("$", "$$")]
        table = {"name": name, "argv": argv, "tree": tree, "version": ["echo", "a shell"]}
        table["answer"] = "lines:.+"  # a run that prints nothing has none
        super().__init__(given.Given.model_validate(table))


class Unprepared(Shell):
    def prepare(self, folder: Path, quick: bool) -> None:
        raise PrepareError("cannot be made")


class Interrupted(Shell):
    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        raise AssertionError("not interrupted")


def failures(program: Program, *allocators: Allocator) -> list[str | None]:
    """Why the program's runs under the allocators do not count, in turn."""
    bench = Bench(programs={program.name: program})
    return [bench.run(cell_of(program), allocator).failure for allocator in allocators]


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stand-ins")
    for fault in ("kNone", "kCrash"):
        (folder / fault).mkdir()
        target = folder / fault / "libnearmalloc.so"
        options = ("-O1", "-shared", "-fPIC", f"-DFAULT={fault}")
        subprocess.run(["cc", *options, "-o", target, HERE / "stand_in.c"], check=True)
    return folder


def stand_in(stand_ins: Path, fault: str = "kNone") -> Allocator:
    return Allocator("nearmalloc", "nearmalloc", stand_ins / fault / "libnearmalloc.so", "0.0.0")


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """The folder of the results."""
    monkeypatch.setenv("NEAR_LAB_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results" / "demo"


def exit_code(**options) -> int:
    with pytest.raises(typer.Exit) as end:
        demo.demo(**options)
    return end.value.exit_code


@pytest.fixture
def python_is(monkeypatch):
    """Puts another program in the place of the first one of the demo."""
    every = programs.by_name()

    def replace(program: Program) -> None:
        monkeypatch.setattr(programs, "by_name", lambda: {**every, program.name: program})

    return replace


# The whole command.


def test_the_command_runs_python_and_writes_a_table_and_raw_results(results, capsys):
    demo.demo(rounds=2, only=["python"], quick=True)
    shown = capsys.readouterr()
    assert "python" in shown.out and "failed" not in shown.out
    (lines,) = results.glob("*.jsonl")
    plan, *rest, end = [json.loads(line) for line in lines.read_text().splitlines()]
    assert plan["plan"] == "demo" and plan["machine"]["kernel"] and end["complete"]
    runs = [line for line in rest if line["kind"] == "run"]
    assert [one["round"] for one in runs] == [0, 0, 1, 1, 2, 2]
    assert len({one["result"]["checksum"] for one in runs}) == 1
    assert {one["sample"]["served_by"] for one in runs} == {"glibc", "nearmalloc"}


def test_the_command_refuses_what_it_cannot_do(results, tmp_path, monkeypatch, capsys):
    assert exit_code(only=["python,nothing"]) == 2
    assert "there are python, python-malloc, sqlite" in capsys.readouterr().err
    monkeypatch.setenv("NEAR_LIBRARY", str(tmp_path / "libnearmalloc.so"))
    assert exit_code(only=["python"]) == 2
    assert "build" in capsys.readouterr().err


def test_a_signal_ends_the_demo_and_restores_the_handlers(results, python_is, capsys):
    python_is(Interrupted("true"))
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code(only=["python"]) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert "interrupted" in capsys.readouterr().err


def test_a_program_that_fails_is_named_and_the_others_are_compared(results, python_is, capsys):
    python_is(Shell("echo no >&2; exit 3"))
    assert exit_code(only=["python,sqlite"], rounds=1, quick=True) == 1
    shown = capsys.readouterr().out
    assert "python failed: glibc: exit code 3: no" in shown and "sqlite failed" not in shown


def test_a_program_whose_inputs_cannot_be_made_is_skipped_with_the_reason(
    results, python_is, capsys
):
    python_is(Unprepared("true"))
    assert exit_code(only=["python"], quick=True) == 1
    shown = capsys.readouterr().err
    assert "python is skipped: cannot be made" in shown and "no program could be run" in shown


# What makes a run fail.


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("echo no >&2; exit 3", "exit code 3: no"),
        ("true", "no checksum"),
        ("setsid sleep 30 & echo 1", "left 1 processes running"),
    ],
)
def test_a_bad_run_is_reported(script, why):
    (failure,) = failures(Shell(script), GLIBC)
    assert why in failure


@pytest.mark.parametrize(
    ("script", "tree", "why"),
    [
        ("echo x$LD_PRELOAD; exec true", False, "checksum: "),
        ("unset LD_PRELOAD; exec echo 1", False, "served by glibc"),
        (f"env -u LD_PRELOAD true; {GOOD}", True, "served by glibc, nearmalloc"),
    ],
)
def test_a_bad_run_under_nearmalloc_is_reported(stand_ins, script, tree, why):
    good, bad = failures(Shell(script, tree=tree), GLIBC, stand_in(stand_ins))
    assert good is None and why in bad


def test_a_crash_in_the_allocator_is_a_result(stand_ins):
    loop = "exec env PYTHONMALLOC=malloc python3 -c 'print(len([str(i) for i in range(50000)]))'"
    good, bad = failures(Shell(loop), GLIBC, stand_in(stand_ins, "kCrash"))
    assert good is None and "ended by SIGSEGV" in bad


def test_an_allocator_runs_with_the_environment_it_asks_for():
    asking = Allocator("glibc", "glibc", None, "", environment=(("LAB_ASKED", "yes"),))
    script = "test $LAB_ASKED = yes && echo 1; exec true"
    assert failures(Shell(script), asking, GLIBC) == [None, "no checksum"]


def test_a_good_program_is_good(stand_ins):
    assert failures(Shell(GOOD), GLIBC, stand_in(stand_ins)) == [None, None]


# Programs that are missing.


class Lacking(Shell):
    def __init__(self, script: str):
        super().__init__(script)
        self.needs = {"near-no-such-command": "near-no-such-package"}


def test_without_root_a_missing_program_is_skipped_with_a_line(
    results, python_is, monkeypatch, capsys
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    python_is(Lacking(GOOD))
    assert exit_code(only=["python"], quick=True) == 1
    shown = capsys.readouterr().err
    assert "near-no-such-command is missing; as root: apt-get install near-no-such-package" in shown
    assert "no program could be run" in shown


def test_as_root_it_is_installed_while_services_are_denied(tmp_path, monkeypatch):
    commands, policy = tmp_path / "bin", tmp_path / "policy-rc.d"
    commands.mkdir()
    script = commands / "apt-get"
    script.write_text(
        f"#!/bin/sh\n[ -x {policy} ] || exit 9\n"
        f'case "$*" in *" install "*) : >{commands}/near-no-such-command\n'
        f"chmod +x {commands}/near-no-such-command;; esac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install, "POLICY", policy)
    assert install.provide(Lacking("true")) is None
    assert not policy.exists()


def test_an_installation_that_fails_says_why(tmp_path, monkeypatch):
    script = tmp_path / "apt-get"
    script.write_text("#!/bin/sh\necho E: no such package >&2\nexit 100\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(install, "POLICY", tmp_path / "policy-rc.d")
    reason = install.provide(Lacking("true"))
    assert (
        reason == "near-no-such-command is missing and could not be installed: E: no such package"
    )


def test_a_policy_of_the_machine_stays(tmp_path):
    policy = tmp_path / "policy-rc.d"
    policy.write_text("of the machine")
    with install.no_services(policy):
        assert policy.read_text() == "of the machine"
    assert policy.read_text() == "of the machine"


# The table.


@pytest.fixture
def rows_with(tmp_path):
    """The rows of programs by name: seconds of glibc and of nearmalloc in rounds from 0 on."""

    def rows(**seconds: tuple[list[float], list[float]]) -> list[demo_table.Row]:
        cells = [results_file.cell(name) | {"program": f"program:{name}"} for name in seconds]
        lines = [results_file.plan_line(["glibc", "nearmalloc"], cells)]
        for name, both in seconds.items():
            for allocator, values in zip(("glibc", "nearmalloc"), both, strict=True):
                for number, value in enumerate(values):
                    metrics = {"seconds": value, "cpu_s": 3 * value, "memory_kib": 1000 * value}
                    lines.append(results_file.run_line(name, allocator, number, metrics))
        path = tmp_path / "result.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return demo_table.rows_of(record.read(path))

    return rows


def test_ratios_are_of_medians_and_the_warm_up_is_not_counted(rows_with):
    (row,) = rows_with(python=([99, 1, 2, 3, 4, 5], [1, 2, 1, 1.5, 3, 1.5]))
    time_, cpu, memory = row.comparisons
    assert time_.baseline == (1, 2, 3, 4, 5)
    assert time_.ratio.value == pytest.approx(1.5 / 3)
    assert cpu.baseline == (3, 6, 9, 12, 15)
    assert memory.baseline == (1000, 2000, 3000, 4000, 5000)
    assert time_.ratio.low <= time_.ratio.value <= time_.ratio.high
    assert demo_table.medians(demo_table.MEASURES[0], time_) == "3.00 → 1.50 s"
    assert demo_table.medians(demo_table.MEASURES[2], memory) == "3 → 1 MiB"


def test_a_verdict_needs_the_whole_interval_on_one_side(rows_with):
    rows = rows_with(
        python=([1, 2, 2, 2, 2, 2], [1, 1, 1.1, 1, 1.2, 1]),
        sqlite=([1, 2, 2, 2, 2, 2], [1, 1, 3, 2, 3, 1]),
        gcc=([1, 2, 2, 2, 2], [1, 1, 1, 1, 1]),
    )
    found = [demo_table.verdict(row.comparisons[0].ratio) for row in rows]
    assert found == [-1, 0, 0], "fewer than five rounds decide nothing"


def test_the_mean_leaves_failed_programs_out(rows_with):
    rows = rows_with(python=([1, 2, 2], [1, 1, 1]), sqlite=([1, 1, 1], [1, 2, 2]))
    rows.append(demo_table.Row("bad", "bad", (), "it failed"))
    assert [mean.value for mean in demo_table.geometric_means(rows)] == pytest.approx([1, 1, 1])
    assert demo_table.geometric_means(rows[2:]) == ()
    assert demo_table.render(rows).row_count == 4


def test_an_unfinished_program_has_no_ratios(rows_with):
    (row,) = rows_with(python=([1], [1]))
    assert row.failure == "glibc: not run"


# The order and the time left.


def test_the_order_alternates_from_round_to_round_and_from_program_to_program():
    one, two = Shell("true", "one"), Shell("true", "two")
    near = Allocator("nearmalloc", "nearmalloc", None, "")
    steps = schedule([one, two], (GLIBC, near), range(6))
    assert len(steps) == 6 * 2 * 2
    firsts = [(step.case.name, step.round, step.allocator.name) for step in steps[::2]]
    expected = [
        (name, number, ("glibc", "nearmalloc")[(number + index) % 2])
        for number in range(6)
        for index, name in enumerate(("one", "two"))
    ]
    assert firsts == expected
    assert all(a.case is b.case for a, b in zip(steps[::2], steps[1::2], strict=True))


def test_the_time_left_follows_the_runs(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    (step, *_) = schedule([Shell("true", "one")], (GLIBC,), range(1, 2))
    with Watch(4, line_every_s=3.0) as watch:
        for seconds in (2.0, 61.0, 63.0):
            watch.before(step)
            clock[0] += seconds
            watch.after(step, "done")
    first, second = capsys.readouterr().err.splitlines()
    # The speed is that between the steps: the first one only starts the clock.
    assert first == "2/4 round 1: one, glibc: done, 2:02 left"
    assert second == "3/4 round 1: one, glibc: done, 1:02 left"


# Redis.


needs_redis = pytest.mark.skipif(
    not (shutil.which("redis-benchmark") and shutil.which("redis-check-rdb")),
    reason="redis-tools is not installed",
)


@needs_redis
def test_redis_is_served_by_glibc_though_it_links_jemalloc(tmp_path):
    redis = programs.by_name()["redis"]
    redis.prepare(tmp_path, quick=True)
    assert failures(redis, GLIBC, GLIBC) == [None, None]
