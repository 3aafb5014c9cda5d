"""The demo: its tables and sentence, how runs of programs are judged, and what is left behind.

Invariant: results go to a temporary folder; faults are always those of stand-ins (stand_in.c).
Thread-safety: pytest.
"""

import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console

import results_file
from nearlab import peers, places, preflight, programs
from nearlab.demo import command as demo
from nearlab.demo import long as long_demo
from nearlab.demo import names, peak, short, tasks
from nearlab.demo import table as demo_table
from nearlab.demo.peak import Peak
from nearlab.demo.table import Comparison, Row
from nearlab.demo.tasks import Task
from nearlab.peers import Allocator
from nearlab.plan import plan as plans
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


def shell(script: str, name: str = "python", **more) -> Task:
    """A program of the short demo that is a line of shell."""
    return Task(name, "a shell", ("sh", "-c", script), **more)


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


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Small inputs of --long, and a short peak."""
    load = plans.load

    def with_small_inputs(path):
        plan = load(path)
        return replace(plan, keys=plan.keys.model_copy(update={"preset": "two-cores"}))

    monkeypatch.setattr(plans, "load", with_small_inputs)
    monkeypatch.setattr(peak, "REST_S", 1)
    monkeypatch.setattr(peak, "MEGABYTES", 8)
    monkeypatch.setattr(peak, "_PEERS", ())


@pytest.fixture
def tasks_are(monkeypatch):
    """Puts other programs in the place of those of the short demo."""

    def replace_all(*others: Task) -> None:
        monkeypatch.setattr(tasks, "TASKS", others)

    return replace_all


# The whole command.


def test_the_short_demo_shows_two_tables_a_sentence_and_its_time(tasks_are, capfd):
    tasks_are(shell(GOOD), shell(GOOD, "other"))
    demo.demo(rounds=3)
    out, err = capfd.readouterr()
    for heading in ("at the peak", "1 s later", "of glibc's", "time", "peak memory"):
        assert heading in out
    assert "failed" not in out
    sentence = " ".join(out[out.index("nearmalloc took") :].split())
    assert "of its peak memory" in sentence and "MiB after a peak where glibc kept" in sentence
    assert "at most 5 min in all" in err and "5 min promised" in err
    lines = (out + err).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line.isprintable() for line in lines), "no control characters off a terminal"


def test_the_long_demo_writes_raw_results(results, capsys):
    demo.demo(long=True, rounds=2, only=["python"])
    shown = capsys.readouterr()
    assert "python" in shown.out and "failed" not in shown.out
    assert "Memory after a peak" not in shown.out and "promised" not in shown.err
    (lines,) = results.glob("*.jsonl")
    plan, *rest, end = [json.loads(line) for line in lines.read_text().splitlines()]
    assert plan["plan"] == "demo" and plan["machine"]["kernel"] and end["complete"]
    runs = [line for line in rest if line["kind"] == "run"]
    assert [one["round"] for one in runs] == [0, 0, 1, 1, 2, 2]
    assert len({one["result"]["checksum"] for one in runs}) == 1
    assert {one["sample"]["served_by"] for one in runs} == {"glibc", "nearmalloc"}


@pytest.mark.parametrize("long", [False, True])
def test_the_command_refuses_what_it_cannot_do(results, tmp_path, monkeypatch, capsys, long):
    assert exit_code(only=["python,nothing"], long=long) == 2
    assert "there are peak, python, python-malloc" in capsys.readouterr().err
    monkeypatch.setenv("NEAR_LIBRARY", str(tmp_path / "libnearmalloc.so"))
    assert exit_code(only=["python"], long=long) == 2
    assert "build" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--only sqlite,nothing", "no program is called nothing"),
        ("--only redis", "no program is called redis"),
        ("--rounds 0", "0 is no number of rounds"),
        ("--quick", "unrecognized arguments: --quick"),
        ("python", "takes no argument, but options: python"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_installed(words, why, capsys):
    assert preflight.answer(["demo", *words.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line


def test_a_right_request_is_not_refused():
    assert preflight.answer("demo --long --only redis --rounds 2".split()) is None
    assert preflight.answer(["demo"]) is None


def test_the_names_of_long_are_those_of_its_plan():
    labels = [workload.label for workload in plans.load(plans.find("demo")).keys.workload]
    assert names.known(long=True) == ["peak", *labels]


def test_the_short_demo_needs_two_packages():
    script = "import sys; from nearlab.demo import {}; print(*sorted(sys.modules))"
    loaded = {}
    for module in ("names", "command"):
        done = subprocess.run(
            [sys.executable, "-c", script.format(module)],
            env={**os.environ, "PYTHONPATH": str(places.ROOT / "lab")},
            capture_output=True,
            text=True,
            check=True,
        )
        loaded[module] = {name.partition(".")[0] for name in done.stdout.split()}
    heavy = {"numpy", "pandas", "scipy", "matplotlib", "pydantic", "elftools", "nearmalloc_tools"}
    assert not loaded["command"] & heavy
    assert not loaded["names"] & (heavy | {"typer", "rich"})


def test_a_signal_ends_the_long_demo_and_restores_the_handlers(results, python_is, capsys):
    python_is(Interrupted("true"))
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code(only=["python"], long=True) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert "interrupted" in capsys.readouterr().err


def running_commands():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            yield path.read_bytes()


def test_a_signal_ends_the_short_demo_with_its_program(tasks_are, capsys):
    script = f"kill -TERM {os.getpid()}; exec sleep 30.16"
    tasks_are(shell(script))
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code(only=["python"]) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert "demo: interrupted" in capsys.readouterr().err
    deadline = time.monotonic() + 10  # the kernel ends the program a moment after the signal
    while any(b"30.16" in command for command in running_commands()):
        assert time.monotonic() < deadline, "its program has ended"
        time.sleep(0.01)


def test_a_program_of_long_that_fails_is_named_and_the_others_are_compared(
    results, python_is, capsys
):
    python_is(Shell("echo no >&2; exit 3"))
    assert exit_code(only=["python,sqlite"], rounds=1, long=True) == 1
    shown = capsys.readouterr().out
    assert "python failed: glibc: exit code 3: no" in shown and "sqlite failed" not in shown


def test_a_program_that_fails_is_named_and_the_others_are_compared(tasks_are, capsys):
    tasks_are(shell("echo no >&2; exit 3"), shell(GOOD, "other"))
    assert exit_code(only=["python,other"], rounds=1) == 1
    shown = capsys.readouterr().out
    assert "python failed: glibc: exit code 3: no" in shown and "other failed" not in shown
    assert "nearmalloc took" in shown


def test_a_peak_that_fails_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "workloads").mkdir()
    (tmp_path / "bench").symlink_to(places.bench_dir())
    script = tmp_path / "workloads" / "after_peak"
    script.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("NEAR_LAB_BUILD", str(tmp_path))
    assert exit_code(only=["peak"]) == 1
    shown = capsys.readouterr().out
    assert f"glibc {GLIBC.version} failed: exit code 1: no memory" in shown
    assert "nearmalloc kept" not in shown


def test_a_program_that_is_not_installed_is_skipped_with_a_line(tasks_are, capsys):
    lacking = Task("python", "missing", ("near-no-such-command",))
    tasks_are(lacking, shell(GOOD, "other"))
    demo.demo(only=["python", "other"], rounds=1)
    shown = capsys.readouterr()
    assert "python is skipped: near-no-such-command is not installed" in shown.err
    assert "other" in shown.out and "python" not in shown.out
    tasks_are(lacking)
    assert exit_code(only=["python"]) == 1
    assert "no program could be run" in capsys.readouterr().err


def test_a_program_whose_inputs_cannot_be_made_is_skipped_with_the_reason(
    results, python_is, capsys
):
    python_is(Unprepared("true"))
    assert exit_code(only=["python"], long=True) == 1
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


# Runs of the short demo.


def short_rows(stand_ins: Path, task: Task, rounds: int = 1) -> list[Row]:
    return short.rows_of([task], (GLIBC, stand_in(stand_ins)), rounds)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (shell("kill -SEGV $$"), "glibc: ended by SIGSEGV"),
        (shell("true"), "glibc: no answer"),
        (shell("echo x$LD_PRELOAD; exec true"), "nearmalloc: another answer than under glibc"),
        (shell("unset LD_PRELOAD; exec echo 1"), "nearmalloc: served by glibc"),
        (
            shell(f"env -u LD_PRELOAD true; {GOOD}", tree=True),
            "nearmalloc: served by glibc, nearmalloc",
        ),
        (shell(GOOD, inputs=("sh", "-c", "echo no >&2; exit 1")), "sh makes no inputs: no"),
        (shell("exec true", answer_file="nothing"), "glibc: no answer: No such file"),
        (Task("python", "", ("near-no-such-command",)), "near-no-such-command"),
    ],
)
def test_a_bad_run_of_the_short_demo_is_reported(stand_ins, task, why):
    (row,) = short_rows(stand_ins, task)
    assert why in row.failure and not row.comparisons


def test_inputs_environment_and_answer_are_those_of_the_task(stand_ins):
    task = shell(
        "read word <file && test $word = $EXPECTED && echo $word >answer",
        inputs=("echo", "seven"),
        inputs_file="file",
        environment=(("EXPECTED", "seven"),),
        answer_file="answer",
    )
    (row,) = short_rows(stand_ins, task, 3)
    assert row.failure is None
    time_, memory = row.comparisons
    assert len(time_.baseline) == len(time_.candidate) == 3 and min(time_.baseline) > 0
    assert min(memory.candidate) > 500


def test_rounds_end_early_but_never_before_the_third(stand_ins, tmp_path):
    def rounds(seconds_of_a_round: float, wanted: int | None) -> int:
        folder = tmp_path / f"{seconds_of_a_round} {wanted}"
        folder.mkdir()
        runs = short.Rounds([shell(GOOD)], (GLIBC, stand_in(stand_ins)), folder)
        runs.run(wanted, 90, itertools.count(0, seconds_of_a_round / 2).__next__)
        return len(runs.done["python"]["glibc"])

    assert rounds(0.1, None) == 5
    assert rounds(22, None) == 4
    assert rounds(1000, None) == 3
    assert rounds(1000, 4) == 4


def test_every_program_of_the_short_demo_runs_under_nearmalloc(tmp_path):
    near = peers.find("nearmalloc")
    for task in tasks.TASKS:
        if task.missing() is None:
            folder = tmp_path / task.name
            folder.mkdir()
            task.prepare(folder)
            done = task.run(near, folder)
            assert done.failure is None and done.answer, task.name


def test_orders_are_those_of_the_shell_of_sqlite(tmp_path):
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not installed")
    script = (programs.SOURCES / "orders.sql").read_text().replace(":rows", "500")
    shell_words = ["sqlite3", "-init", "/dev/null", "-batch", ":memory:"]
    said = subprocess.run(shell_words, input=script, capture_output=True, text=True, check=True)
    module = [sys.executable, programs.SOURCES / "orders.py", "500"]
    found = subprocess.run(module, capture_output=True, text=True, check=True).stdout
    lines = [line for line in said.stdout.splitlines() if not line.startswith("--")]
    assert found.splitlines() == lines and len(lines) > 20


def test_the_time_includes_what_ran_before_the_last_exec():
    script = "from nearlab.demo import command; print(command.seconds_since_start())"
    done = subprocess.run(
        ["sh", "-c", 'sleep 1; exec "$@"', "sh", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 1 < float(done.stdout) < 60


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
    assert exit_code(only=["python"], long=True) == 1
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


# The tables and the sentence.


@pytest.fixture
def rows_with(tmp_path):
    """The rows of programs by name: seconds of glibc and of nearmalloc in rounds from 0 on."""

    def rows(**seconds: tuple[list[float], list[float]]) -> list[Row]:
        cells = [results_file.cell(name) | {"program": f"program:{name}"} for name in seconds]
        lines = [results_file.plan_line(["glibc", "nearmalloc"], cells)]
        for name, both in seconds.items():
            for allocator, values in zip(("glibc", "nearmalloc"), both, strict=True):
                for number, value in enumerate(values):
                    metrics = {"seconds": value, "memory_kib": 1000 * value}
                    lines.append(results_file.run_line(name, allocator, number, metrics))
        path = tmp_path / "result.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return long_demo.rows_of(record.read(path))

    return rows


def row(name: str, time_: float, memory: float, rounds: int = 3) -> Row:
    """A program that takes these shares of glibc's 2 s and 100 MiB, in every round."""
    return Row(
        name,
        f"what {name} does",
        (
            Comparison((2.0,) * rounds, (2 * time_,) * rounds),
            Comparison((102_400.0,) * rounds, (102_400 * memory,) * rounds),
        ),
    )


def peaks(glibc: float, near: float) -> list[Peak]:
    used = (305, 15)
    return [
        Peak("glibc", "glibc 2", 340, glibc, *used),
        Peak("nearmalloc", "nearmalloc 1", 350, near, *used),
    ]


def shown(table) -> str:
    console = Console(file=io.StringIO(), width=demo_table.WIDTH)
    console.print(table)
    return console.file.getvalue()


def test_ratios_are_of_medians_and_the_warm_up_is_not_counted(rows_with):
    (row,) = rows_with(python=([99, 1, 2, 3, 4, 5], [1, 2, 1, 1.5, 3, 1.5]))
    time_, memory = row.comparisons
    assert time_.baseline == (1, 2, 3, 4, 5)
    assert time_.ratio.value == pytest.approx(1.5 / 3)
    assert (time_.ratio.low, time_.ratio.high) == (1.5 / 5, 2)
    assert memory.baseline == (1000, 2000, 3000, 4000, 5000)
    assert demo_table.medians(demo_table.MEASURES[0], time_) == "3.00 → 1.50 s"
    assert demo_table.medians(demo_table.MEASURES[1], memory) == "3 → 1 MiB"
    assert str(time_.ratio) == "0.50 [0.30, 2.00]"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "text"),
    [
        ((2, 2, 2), (1, 1, 1.5), -1, "0.50 [0.50, 0.75]"),
        ((2, 2, 2), (3, 4, 3), 1, "1.50 [1.50, 2.00] worse"),
        ((2, 2, 2), (1, 1, 3), 0, "0.50 [0.50, 1.50]"),
        ((2, 2), (1, 1), 0, "0.50 [0.50, 0.50]"),
        ((2,), (3,), 0, "1.50"),
    ],
)
def test_a_verdict_needs_three_rounds_on_one_side(before, after, verdict, text):
    ratio = Comparison(before, after).ratio
    assert ratio.verdict == verdict and str(ratio) == text


def test_the_mean_leaves_failed_programs_out():
    rows = [row("one", 0.5, 1), row("two", 2, 1), Row("bad", "bad", (), "it failed")]
    assert [mean.value for mean in demo_table.geometric_means(rows)] == pytest.approx([1, 1])
    assert demo_table.geometric_means(rows[2:]) == ()
    text = shown(demo_table.render(rows))
    assert "mean of 2" in text and "2.00 [2.00, 2.00] worse" in text and "failed" in text


def test_an_unfinished_program_has_no_ratios(rows_with):
    (row,) = rows_with(python=([1], [1]))
    assert row.failure == "glibc: not run"


def test_tables_fit_into_eighty_columns():
    titles = [task.title for task in tasks.TASKS]
    titles += [programs.listed()[name].title for name in names.known(long=True)[1:]]
    rows = [replace(row("python-malloc", 12.34, 12.34), title=title) for title in titles]
    rows.append(Row("wide", "", (Comparison((1234.0,) * 3, (12345.0,) * 3),) * 2))
    of_peak = [Peak("glibc", "google/tcmalloc 0.1.14+8 KiB", 123_456.0, 123_456.0)]
    for table in (demo_table.render(rows), demo_table.render_peaks(of_peak, 6)):
        lines = shown(table).splitlines()
        assert max(map(len, lines)) <= 80
        assert "…" not in shown(table), "nothing is cut off"


def test_memory_after_a_peak_stands_beside_that_of_glibc():
    text = shown(demo_table.render_peaks(peaks(200, 50), 6))
    assert "200 MiB" in text and "6 s later" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["nearmalloc", "1", "350", "MiB", "50", "MiB", "0.25"] in lines
    assert ["used", "by", "the", "program", "305", "MiB", "15", "MiB"] in lines
    assert shown(demo_table.render_peaks([], 6)), "the heading alone, before the first run"


def test_without_glibc_there_is_no_share_of_it():
    of_peak = peaks(200, 50)
    of_peak[0] = replace(of_peak[0], failure="it failed")
    text = shown(demo_table.render_peaks(of_peak, 6))
    assert "failed" in text and "0.25" not in text and "50 MiB" in text and "305 MiB" in text


@pytest.mark.parametrize(
    ("rows", "of_peak", "sentence"),
    [
        (
            [row("one", 0.9, 1.02), row("two", 0.9, 1.02)],
            peaks(337.2, 33.4),
            "nearmalloc took 0.90 of glibc's time and 1.02 of its peak memory"
            " (larger in 2 of 2 programs), and kept 33 MiB after a peak where glibc kept 337.",
        ),
        (
            [row("one", 1.21, 0.5), row("two", 1, 0.5)],
            [],
            "nearmalloc took 1.10 of glibc's time (slower in 1 of 2 programs)"
            " and 0.50 of its peak memory.",
        ),
        (
            [Row("mixed", "", (Comparison((2, 2, 2), (3, 1, 3)),) * 2)],
            [],
            "nearmalloc took 1.50 of glibc's time and 1.50 of its peak memory.",
        ),
        (
            [Row("bad", "bad", (), "it failed")],
            peaks(10, 20),
            "nearmalloc kept 20 MiB after a peak where glibc kept 10.",
        ),
        ([], [], ""),
    ],
)
def test_the_sentence_is_made_of_the_numbers(rows, of_peak, sentence):
    assert demo_table.sentence(rows, of_peak) == sentence


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min"), (252, "4 min 12 s"), (299.7, "5 min")],
)
def test_a_duration_reads_as_people_say_it(seconds, text):
    assert demo._duration(seconds) == text


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
