"""The demo: its table, its judgement of runs, and that it leaves no process behind.

Invariant: results go to a temporary folder. The library is the built nearmalloc where there is one,
else a stand-in; faults are always those of stand-ins (stand_in.c). Thread-safety: pytest.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import processes
import pytest
import typer

from nearlab import demo, demo_install, demo_table, measure, places, programs
from nearlab.demo_run import Record, Runner
from nearlab.interleave import Step, schedule
from nearlab.peers import Allocator
from nearlab.programs.base import Command, CommandProgram, PrepareError, Program, Run
from nearlab.programs.redis import Redis
from nearlab.progress import Forecast, clock

GLIBC = Allocator("glibc", "glibc", None, "glibc 2.36")
HERE = Path(__file__).resolve().parent
GOOD = "echo 1; exec true"  # a shell may end without running its exit handlers, `true` does not


class Shell(CommandProgram):
    """A program that is a line of shell."""

    version = ("echo", "a shell")

    def __init__(self, script: str, name: str = "shell", tree: bool = False):
        self.name = self.title = name
        self._script = script
        self._tree = tree

    def prepare(self, folder: Path, quick: bool) -> None:
        pass

    def command(self) -> Command:
        return Command(["sh", "-c", self._script], tree=self._tree)


class Unprepared(Shell):
    def prepare(self, folder: Path, quick: bool) -> None:
        raise PrepareError("cannot be made")


class Interrupted(Shell):
    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        raise AssertionError("not interrupted")


@pytest.fixture(scope="session")
def tools(tmp_path_factory) -> Path:
    """A folder with the launcher and the stand-ins."""
    folder = tmp_path_factory.mktemp("tools")
    built = measure.places.bench_dir() / "launch"
    if built.is_file():
        (folder / "launch").symlink_to(built)
    else:
        _compile(HERE.parent / "bench" / "launch.c", folder / "launch")
    for fault in ("kNone", "kSilent", "kCrash"):
        (folder / fault).mkdir()
        options = ("-shared", "-fPIC", f"-DFAULT={fault}")
        _compile(HERE / "stand_in.c", folder / fault / "libnearmalloc.so", *options)
    return folder


def _compile(source: Path, target: Path, *options: str) -> None:
    subprocess.run(["cc", "-O1", *options, "-o", target, source], check=True)


@pytest.fixture(autouse=True)
def results(tools, tmp_path, monkeypatch) -> Path:
    """The folder of the results; the launcher is found."""
    monkeypatch.setenv("NEAR_BENCH_DIR", str(tools))
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(places, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def stand_in(tools: Path, fault: str = "kNone") -> Allocator:
    return Allocator("nearmalloc", "nearmalloc", tools / fault / "libnearmalloc.so", "0.0.0")


def run(program: Program, near: Allocator, rounds: int = 1) -> bool:
    return demo.run([program], (GLIBC, near), rounds, quick=True)


def exit_code(**options) -> int:
    with pytest.raises(typer.Exit) as end:
        demo.demo(**options)
    return end.value.exit_code


# The whole command.


def test_the_command_runs_python_and_writes_table_figure_and_raw_results(
    tools, results, monkeypatch, capsys
):
    if not places.nearmalloc_library().exists():
        monkeypatch.setenv("NEAR_LIBRARY", str(tools / "kNone" / "libnearmalloc.so"))
    assert exit_code(rounds=2, only=["python"], quick=True) == 0
    shown = capsys.readouterr()
    assert "python" in shown.out
    assert "failed" not in shown.out
    assert len(shown.err.strip().splitlines()) == 6  # the warm-up and two rounds of two
    assert shown.err.strip().endswith("0:00 left")
    assert (results / "demo.png").read_bytes().startswith(b"\x89PNG")
    start, *runs = [json.loads(line) for line in (results / "demo.jsonl").read_text().splitlines()]
    assert start["machine"]["kernel"]
    assert start["date"]
    assert start["cases"]["python"].startswith("Python 3")
    assert [one["round"] for one in runs] == [0, 0, 1, 1, 2, 2]
    assert {one["answer"] for one in runs} == {runs[0]["answer"]}
    assert {one["sample"]["served_by"] for one in runs} == {"glibc", "nearmalloc"}


def test_the_command_refuses_what_it_cannot_do(tmp_path, monkeypatch, capsys):
    assert exit_code(only=["python,nothing"]) == 2
    assert "there are python, python-malloc, sqlite" in capsys.readouterr().err
    monkeypatch.setenv("NEAR_LIBRARY", str(tmp_path / "libnearmalloc.so"))
    assert exit_code(only=["python"]) == 2
    assert "build" in capsys.readouterr().err


def test_a_signal_ends_the_demo_and_restores_the_handlers(tools, monkeypatch, capsys):
    monkeypatch.setenv("NEAR_LIBRARY", str(tools / "kNone" / "libnearmalloc.so"))
    monkeypatch.setattr(programs, "all_programs", lambda: [Interrupted("true", "interrupted")])
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code() == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert "interrupted" in capsys.readouterr().err


# What makes a run fail.


@pytest.mark.parametrize(
    ("script", "fault", "why"),
    [
        ("kill -SEGV $$", "kNone", "glibc, warm-up: ended by SIGSEGV"),
        ("echo no >&2; exit 3", "kNone", "glibc, warm-up: exit code 3: no"),
        ("true", "kNone", "glibc, warm-up: no output"),
        ("echo x$LD_PRELOAD; exec true", "kNone", "nearmalloc, warm-up: wrong output"),
        (GOOD, "kSilent", "nearmalloc, warm-up: nearmalloc did not name itself"),
        ("unset LD_PRELOAD; exec echo 1", "kNone", "nearmalloc, warm-up: served by glibc instead"),
        ("setsid sleep 30 & echo 1", "kNone", "left 1 processes running"),
    ],
)
def test_a_bad_run_is_reported(tools, capsys, script, fault, why):
    assert not run(Shell(script), stand_in(tools, fault))
    shown = " ".join(capsys.readouterr().out.split())
    assert "shell failed: " in shown
    assert why in shown


def test_every_process_of_a_tree_must_be_served(tools, capsys):
    script = f"env -u LD_PRELOAD true; {GOOD}"
    assert not run(Shell(script, tree=True), stand_in(tools))
    assert "served by glibc, nearmalloc instead of nearmalloc" in capsys.readouterr().out


def test_a_crash_in_the_allocator_is_a_result_and_the_others_still_run(tools, results, capsys):
    crashing = stand_in(tools, "kCrash")
    python = next(program for program in programs.all_programs() if program.name == "python")
    assert not demo.run([python, Shell(GOOD)], (GLIBC, crashing), 1, quick=True)
    shown = capsys.readouterr().out
    assert "python failed: nearmalloc, warm-up: ended by SIGSEGV" in shown
    assert "shell failed" not in shown
    runs = [json.loads(line) for line in (results / "demo.jsonl").read_text().splitlines()][1:]
    assert [one["case"] for one in runs].count("shell") == 4
    assert [one["case"] for one in runs].count("python") <= 2


def test_a_good_program_is_good(tools, capsys):
    assert run(Shell(GOOD), stand_in(tools))
    assert "failed" not in capsys.readouterr().out


def test_a_program_whose_inputs_cannot_be_made_has_failed(tools, capsys):
    selected = [Unprepared("true", "unprepared"), Shell(GOOD)]
    assert not demo.run(selected, (GLIBC, stand_in(tools)), 1, quick=True)
    assert "unprepared failed: cannot be made" in capsys.readouterr().out


# Programs that are missing.


class Lacking(Shell):
    needs: Mapping[str, str] = {"near-no-such-command": "near-no-such-package"}


def test_without_root_a_missing_program_is_skipped_with_a_line(tools, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not run(Lacking(GOOD), stand_in(tools))
    shown = capsys.readouterr().err
    assert "near-no-such-command is missing; as root: apt-get install near-no-such-package" in shown
    assert "no program could be run" in shown
    assert demo.run([Lacking(GOOD), Shell(GOOD)], (GLIBC, stand_in(tools)), 1, quick=True)


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
    monkeypatch.setattr(demo_install, "POLICY", policy)
    assert demo_install.provide(Lacking("true")) is None
    assert not policy.exists()


def test_an_installation_that_fails_says_why(tmp_path, monkeypatch):
    script = tmp_path / "apt-get"
    script.write_text("#!/bin/sh\necho E: no such package >&2\nexit 100\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(demo_install, "POLICY", tmp_path / "policy-rc.d")
    reason = demo_install.provide(Lacking("true"))
    assert (
        reason == "near-no-such-command is missing and could not be installed: E: no such package"
    )


def test_a_policy_of_the_machine_stays(tmp_path):
    policy = tmp_path / "policy-rc.d"
    policy.write_text("of the machine")
    with demo_install.no_services(policy):
        assert policy.read_text() == "of the machine"
    assert policy.read_text() == "of the machine"


# The table.


def record(program: Program, allocator: Allocator, number: int, seconds: float) -> Record:
    sample = measure.Sample(
        argv=(),
        wall_s=seconds,
        user_s=2 * seconds,
        sys_s=seconds,
        peak_rss_kib=int(900 * seconds),
        mean_rss_kib=0,
        peak_pte_kib=int(100 * seconds),
        minor_faults=0,
        major_faults=0,
        voluntary_switches=0,
        involuntary_switches=0,
        exit_code=0,
        signal=0,
        timed_out=False,
        stdout="",
        stderr="",
        served_by=allocator.name,
        samples=1,
        left_running=0,
        processes=(),
    )
    return Record(Step(number, program, allocator), Run(sample, seconds, "1"), None)


def rows_with(program: Program, baseline: list[float], candidate: list[float]):
    near = Allocator("nearmalloc", "nearmalloc", None, "")
    records = [
        record(program, allocator, number, seconds)
        for allocator, values in ((GLIBC, baseline), (near, candidate))
        for number, seconds in enumerate(values)
    ]
    return demo_table.rows_of(records, "glibc", "nearmalloc")


def test_ratios_are_of_medians_and_the_warm_up_is_not_counted():
    (row,) = rows_with(Shell("true"), [99, 1, 2, 3, 4, 5], [1, 2, 1, 1.5, 3, 1.5])
    time_, cpu, memory = row.comparisons
    assert time_.baseline == (1, 2, 3, 4, 5)
    assert time_.ratio.value == pytest.approx(1.5 / 3)
    assert cpu.baseline == (3, 6, 9, 12, 15)
    assert memory.baseline == (1000, 2000, 3000, 4000, 5000)
    assert time_.ratio.low <= time_.ratio.value <= time_.ratio.high
    assert demo_table.medians(demo_table.MEASURES[0], time_) == "3.00 → 1.50 s"
    assert demo_table.medians(demo_table.MEASURES[2], memory) == "3 → 1 MiB"


def test_a_verdict_needs_the_whole_interval_on_one_side():
    (better,) = rows_with(Shell("true"), [1, 2, 2, 2], [1, 1, 1.1, 1])
    (unclear,) = rows_with(Shell("true"), [1, 2, 2, 2], [1, 1, 3, 2])
    (single,) = rows_with(Shell("true"), [1, 2], [1, 1])
    verdicts = [demo_table.verdict(row.comparisons[0].ratio) for row in (better, unclear, single)]
    assert verdicts == [-1, 0, 0]


def test_the_mean_leaves_failed_programs_out():
    rows = rows_with(Shell("true"), [1, 2, 2], [1, 1, 1])
    rows += rows_with(Shell("true", "other"), [1, 1, 1], [1, 2, 2])
    rows.append(demo_table.Row("bad", "bad", (), "it failed"))
    assert [mean.value for mean in demo_table.geometric_means(rows)] == pytest.approx([1, 1, 1])
    assert demo_table.geometric_means(rows[2:]) == ()
    assert demo_table.render(rows).row_count == 4


def test_an_unfinished_program_has_no_ratios():
    (row,) = rows_with(Shell("true"), [1], [1])
    assert row.failure == "no round was completed"


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


def test_the_time_left_follows_the_runs_and_a_failure_shortens_it():
    one, two = Shell("true", "one"), Shell("true", "two")
    steps = schedule([one, two], (GLIBC, Allocator("nearmalloc", "", None, "")), range(2))
    forecast = Forecast(steps)
    forecast.add(steps[0], 2.0)
    assert forecast.left_s() == pytest.approx(7 * 2.0)
    forecast.add(steps[1], 4.0)
    forecast.add(steps[2], 1.0)
    assert forecast.left_s() == pytest.approx(2 * 3.0 + 3 * 1.0)
    forecast.add(steps[3], 1.0)
    forecast.drop(two)
    assert forecast.done == 6
    assert forecast.left_s() == pytest.approx(2 * 3.0)
    assert clock(125.2) == "2:05"


# Redis.


needs_redis = pytest.mark.skipif(
    not (shutil.which("redis-benchmark") and shutil.which("redis-check-rdb")),
    reason="redis-tools is not installed",
)


@needs_redis
def test_redis_is_served_by_glibc_though_it_links_jemalloc(tmp_path):
    redis = Redis()
    redis.prepare(tmp_path, quick=True)
    steps = schedule([redis], (GLIBC,), range(2))
    done = list(Runner().do(steps, lambda _: None))
    assert [one.failure for one in done] == [None, None]
    assert {one.run.sample.served_by for one in done} == {"glibc"}


@needs_redis
@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_no_server_is_left_when_the_load_ends_early(tmp_path, monkeypatch, end):
    def fail(*_):
        raise end("early")

    redis = Redis()
    redis.prepare(tmp_path, quick=True)
    started = []
    start = measure.start_child

    def remember(*args, **options):
        child = start(*args, **options)
        started.append(child.pid)
        return child

    monkeypatch.setattr(measure, "start_child", remember)
    monkeypatch.setattr(Redis, "_benchmark", fail)
    if end is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            redis.run(GLIBC, {})
    else:
        assert redis.run(GLIBC, {}).complaint == "early"
    assert len(started) == 1
    assert processes.ends(started[0])
