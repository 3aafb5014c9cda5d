"""A plan runs as its log says, every failure is a record, and an interrupted run can be resumed."""

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import fake_workloads
from nearlab import peers, places, programs
from nearlab.measure import callgrind, measure
from nearlab.peers import Allocator
from nearlab.plan import plan
from nearlab.plan.cells import Cell
from nearlab.programs.base import Program, Run
from nearlab.results import journal, record
from nearlab.runs import busy, driver, huge_pages, interleave, probe, work
from nearlab.runs import command as run
from nearlab.runs.command import Choice

GLIBC = Allocator("glibc", "glibc", None, "2")
PRETENDER = Allocator("jemalloc", "jemalloc", None, "5")  # nothing is preloaded: glibc serves it
true_probe = probe.take
ABSENT = Allocator("mimalloc2", "mimalloc 2", None, "", "not found: on purpose")


@pytest.fixture(autouse=True)
def fakes(tmp_path, monkeypatch):
    """Fake workloads, results in a folder of the test, no time spent on memory and probes."""
    monkeypatch.setenv("NEAR_LAB_BUILD", str(fake_workloads.build(tmp_path / "lab")))
    monkeypatch.setenv("NEAR_LAB_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(driver, "touch_memory", lambda: None)
    monkeypatch.setattr(probe, "take", lambda: 0.01)
    monkeypatch.setattr(busy, "disturbance", lambda *_: None)  # the tests' own processes may


@pytest.fixture
def given(monkeypatch):
    """Replaces the allocators of the machine by those given."""

    def give(*allocators: Allocator) -> None:
        there = {allocator.name: allocator for allocator in allocators}
        monkeypatch.setattr(peers, "ensure", lambda names: [there[name] for name in names])

    return give


def a_plan(
    programs: list[str], allocators: list[str], rounds: int = 2, more: str = ""
) -> plan.Plan:
    head = f"allocators = {json.dumps(allocators)}\nrounds = {rounds}\n{more}"
    return plan.parse(fake_workloads.plan_text(fake_workloads.tables(*programs), head), "try.toml")


def measured(chosen: plan.Plan, choice: Choice | None = None, resume: bool = False) -> list[dict]:
    with run.prepared(chosen, choice or Choice()) as one:
        results = places.plan_results()
        with one.resume(results) if resume else one.start(results) as lines:
            one.run(lines)
        return journal.read(lines.path)


def libc() -> Path:
    """A library that may be preloaded and changes nothing."""
    return next(Path("/lib").glob("*/libc.so.6"))


def runs(records: list[dict], **wanted) -> list[dict]:
    found = [record for record in records if record["kind"] == "run"]
    return [one for one in found if all(one[key] == value for key, value in wanted.items())]


def failures(records: list[dict], **wanted) -> list[str]:
    return [one["failure"] for one in runs(records, **wanted)]


# --- what is run, in which order, and what is written ----------------------------------------


def test_the_order_is_what_the_log_says(found):
    names = [one.name for one in found.values() if one.available][:4]
    assert len(names) >= 2
    records = measured(a_plan(["steady", "other"], names, rounds=len(names), more="warm_up = 0"))
    lines = runs(records)
    assert not any(failures(records)) and len(lines) == 2 * len(names) ** 2
    for number in range(1, len(names) + 1):
        for index, cell in enumerate(("steady", "other")):
            order = [one["allocator"] for one in runs(records, round=number, cell=cell)]
            assert order == interleave.balanced(names, number + index)
            places_ = [one["place"] for one in runs(records, round=number, cell=cell)]
            assert places_ == list(range(len(names)))
    for cell in ("steady", "other"):
        taken = Counter((one["allocator"], one["place"]) for one in runs(records, cell=cell))
        assert len(taken) == len(names) ** 2 and set(taken.values()) == {1}
    started = [datetime.fromisoformat(one["started"]) for one in lines]
    assert all(before < after for before, after in itertools.pairwise(started))
    assert [one["round"] for one in lines] == sorted(one["round"] for one in lines)


def test_the_first_line_says_what_the_rest_depends_on(given):
    given(GLIBC, ABSENT)
    chosen = a_plan(["steady"], ["glibc", "mimalloc2"])
    first, *rest = measured(chosen)
    assert (first["kind"], first["plan"], first["format"]) == ("plan", "try", 1)
    assert first["plan_hash"] == chosen.hash and first["plan_toml"] == chosen.text
    assert first["machine"]["cpus"] > 0 and first["probe_s"] > 0
    assert [one["missing"] for one in first["allocators"]] == [None, "not found: on purpose"]
    assert first["cells"][0]["cell"] == "steady" and first["cells"][0]["missing"] is None
    assert {one["allocator"] for one in runs(rest)} == {"glibc"}
    assert rest[-1] == {"kind": "end", "date": rest[-1]["date"], "complete": True}


def test_a_run_has_its_numbers_and_its_times_are_those_measured(given, monkeypatch):
    given(GLIBC)
    probes = iter([0.01] * 5 + [0.03, 0.01] * 9)
    monkeypatch.setattr(probe, "take", lambda: next(probes))
    records = measured(a_plan(["steady"], ["glibc"], rounds=1, more="warm_up = 0"))
    (one,) = runs(records)
    numbers = one["metrics"]
    assert one["probe_s"] == pytest.approx(0.02) and records[0]["probe_s"] == 0.01
    assert (numbers["seconds"], numbers["ops_per_s"]) == (0.5, 200)
    assert (numbers["malloc_p50_ns"], numbers["malloc_samples"]) == (20, 3)
    assert numbers["memory_kib"] == numbers["peak_rss_kib"] + numbers["pte_kib"] > 500
    assert {"cpu_s", "mean_rss_kib", "minor_faults", "context_switches"} <= numbers.keys()
    assert one["result"]["checksum"] == "cafe" and one["sample"]["exit_code"] == 0


def test_rounds_before_the_first_warm_up(given):
    given(GLIBC)
    records = measured(a_plan(["steady"], ["glibc"], rounds=2, more="warm_up = 2"))
    assert [one["round"] for one in runs(records)] == [-1, 0, 1, 2]


def test_the_limit_is_told_its_buffer_and_left_out_where_it_makes_no_sense(given):
    given(GLIBC)
    tables = fake_workloads.tables("steady", "slow")
    text = tables.replace('"steady"', '"steady"\nlimit_mib = 5') + "\nlimit_mib = 0"
    head = 'allocators = ["glibc"]'
    chosen = plan.parse(fake_workloads.plan_text(text, head), "try.toml")
    with run.prepared(chosen, Choice()) as one:
        one.allocators.append(Allocator("limit", "limit", libc(), ""))
        with one.start(places.plan_results()) as lines:
            one.run(lines)
    records = journal.read(lines.path)
    assert {one["allocator"] for one in runs(records, cell="slow")} == {"glibc"}
    assert {one["allocator"] for one in runs(records, cell="steady")} == {"glibc", "limit"}
    assert runs(records, cell="steady")[0]["metrics"]["limit"] == 5


def test_an_allocator_of_ones_own_is_measured_by_its_library(tmp_path):
    source = Path(__file__).with_name("stand_in.c")
    library = tmp_path / "libmine.so"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    choice = Choice(allocators=(f"mine={library}",), count=True)
    records = measured(a_plan(["steady"], ["glibc"], rounds=1), choice)
    (mine,) = records[0]["allocators"]
    assert (mine["name"], mine["missing"]) == ("mine", None) and mine["digest"]
    assert failures(records) == [None, None]
    (count,) = (one for one in records if one["kind"] == "count")
    assert count["failure"] is None and count["calls"]["malloc"] > 0


# --- what goes wrong -------------------------------------------------------------------------


def test_a_crash_is_recorded_and_not_repeated_for_ever(given):
    given(GLIBC)
    records = measured(a_plan(["crash", "steady"], ["glibc"], rounds=3))
    first = "ended by SIGSEGV"
    assert failures(records, cell="crash") == [first] * 2 + [f"failed before: {first}"] * 2
    crashed, *_, skipped = runs(records, cell="crash")
    assert crashed["metrics"] == {} and crashed["sample"]["signal"] == 11
    assert skipped["sample"] is None and skipped["probe_s"] is None
    assert failures(records, cell="steady") == [None] * 4


def test_a_time_out_is_recorded(given):
    given(GLIBC)
    records = measured(a_plan(["hang"], ["glibc"], rounds=1, more="timeout_s = 0.2"))
    assert failures(records) == ["timed out"] * 2


def test_an_allocator_that_does_not_serve_is_recorded(given):
    given(GLIBC, PRETENDER)
    records = measured(a_plan(["steady", "liar"], ["glibc", "jemalloc"], rounds=1))
    assert set(failures(records, cell="steady", allocator="jemalloc")) == {"served by glibc"}
    assert set(failures(records, cell="steady", allocator="glibc")) == {None}
    claim = "says that /usr/lib/other.so serves it"
    assert set(failures(records, cell="liar", allocator="glibc")) == {claim}


def test_a_library_that_is_no_library_is_recorded(given, tmp_path):
    (tmp_path / "libbad.so").write_text("no library")
    given(Allocator("nearmalloc", "nearmalloc", tmp_path / "libbad.so", "0"))
    records = measured(a_plan(["steady"], ["nearmalloc"], rounds=1))
    assert set(failures(records)) == {"served by glibc"}


def test_blocks_that_overlap_and_answers_that_differ_are_recorded(given):
    given(GLIBC)
    records = measured(a_plan(["overlap", "moody", "silent"], ["glibc"], rounds=1))
    assert failures(records, cell="overlap") == ["checksum: a block was not as it was left"] * 2
    warm_up, counted = failures(records, cell="moody")
    assert warm_up is None and counted.startswith("checksum: ") and " instead of " in counted
    assert failures(records, cell="silent") == ["unreadable result"] * 2


def test_what_a_failed_run_printed_is_kept(given):
    given(GLIBC)
    records = measured(a_plan(["arguments"], ["glibc"], rounds=1))
    words = "--preset two-cores"
    assert failures(records)[0] == f"exit code 9: {words}"
    assert runs(records)[0]["stderr"] == f"{words}\n"


def test_a_failure_under_one_allocator_spares_the_others(found):
    records = measured(a_plan(["preloaded"], ["glibc", "nearmalloc"], rounds=1))
    assert set(failures(records, allocator="glibc")) == {None}
    assert set(failures(records, allocator="nearmalloc")) == {"exit code 7"}


def test_a_real_program_that_is_missing_is_a_cell_with_a_reason(given, monkeypatch):
    given(GLIBC)
    monkeypatch.setattr(run.Bench, "prepare", lambda *_, **__: {"gcc": "not today"})
    records = measured(a_plan(["program:gcc", "steady"], ["glibc"], rounds=1))
    assert [cell["missing"] for cell in records[0]["cells"]] == ["not today", None]
    assert {one["cell"] for one in runs(records)} == {"steady"}


def test_a_real_program_is_run_and_its_answer_compared(given):
    if programs.by_name()["sqlite"].missing():
        pytest.skip("sqlite3 is not installed")
    given(GLIBC)
    records = measured(a_plan(["program:sqlite"], ["glibc"], rounds=1))
    assert failures(records) == [None, None]
    numbers = runs(records)[0]["metrics"]
    assert 0 < numbers["seconds"] < 60 and numbers["memory_kib"] > 1000


class Liar(Program):
    """A real program that answers wrongly if any library is preloaded."""

    name = "liar"

    def prepare(self, folder, quick):
        pass

    def run(self, allocator, env):
        sample = measure.run_child(["true"], preload=allocator.library)
        return Run(sample, 0.1, "right" if allocator.library is None else "wrong")


def test_of_a_real_program_glibc_is_right_whoever_comes_first(monkeypatch):
    cell = Cell(**(dict.fromkeys(Cell.__slots__) | {"name": "liar", "real_program": "liar"}))
    bench = work.Bench(programs={"liar": Liar()})
    ours = peers.find("nearmalloc")
    assert "checksum" in bench.run(cell, ours).failure
    assert bench.run(cell, peers.find("glibc")).failure is None


# --- counts ----------------------------------------------------------------------------------


def test_counts_come_after_the_rounds(given):
    given(GLIBC)
    records = measured(a_plan(["steady", "crash"], ["glibc"], rounds=1), Choice(count=True))
    kinds = [one["kind"] for one in records]
    assert kinds == ["plan", "empty", *["run"] * 4, "count", "count", "end"]
    (empty,) = (one for one in records if one["kind"] == "empty")
    assert len(empty["memory_kib"]) == 5 and min(empty["memory_kib"]) > 500
    good, bad = (one for one in records if one["kind"] == "count")
    assert good["syscalls"]["mmap"] > 3 and good["syscalls"]["mremap"] == 0
    assert good["calls"]["malloc"] > 0 and 0 <= good["malloc_share"] <= 1 and not good["failure"]
    assert bad["syscalls"] is None and bad["failure"] == "failed before: ended by SIGSEGV"


def test_instructions_are_counted_on_request(given, monkeypatch):
    asked = []

    def count(argv, library, env, timeout):
        asked.append((argv[0], library, env))
        return callgrind.Count(123)

    monkeypatch.setattr(callgrind, "count", count)
    given(GLIBC)
    records = measured(a_plan(["steady"], ["glibc"], rounds=1), Choice(instructions=True))
    (one,) = (one for one in records if one["kind"] == "instructions")
    assert (one["instructions"], one["failure"]) == (123, None)
    assert asked == [(str(places.workload_dir() / "steady"), None, {})]


# --- choices, good and bad -------------------------------------------------------------------


def test_cells_allocators_and_rounds_are_chosen(given):
    given(GLIBC)
    chosen = a_plan(["steady", "slow"], ["glibc", "nearmalloc"], rounds=5)
    records = measured(chosen, Choice(rounds=1, allocators=("glibc",), only="sl*"))
    assert {(one["cell"], one["allocator"]) for one in runs(records)} == {("slow", "glibc")}
    assert len(runs(records)) == 2 and records[0]["rounds"] == 1


@pytest.mark.parametrize(
    "word,choices,complaint",
    [
        ("nothing", {}, "'nothing' is no plan"),
        ("steady", {"allocators": "mine=/none.so"}, "there is no file /none.so"),
        ("steady", {"allocators": "mimalloc2"}, "mimalloc2: not found: on purpose"),
        ("gone.toml", {}, "there is no plan gone.toml"),
        ("steady", {"only": "x*"}, "no cell is called 'x*'; there are: steady"),
        ("steady", {"allocators": "bumpmalloc"}, "unknown 'bumpmalloc'"),
        ("steady", {"resume": True}, "no unfinished result of plan steady"),
    ],
)
def test_a_wrong_choice_is_one_line_and_status_two(capsys, monkeypatch, word, choices, complaint):
    monkeypatch.setattr(peers, "ensure", lambda names: [ABSENT])
    with pytest.raises(typer.Exit) as ended:
        run.run([word], **choices)
    said = capsys.readouterr().err.strip()
    assert ended.value.exit_code == 2 and said.startswith("nearlab: ")
    assert complaint in said and "\n" not in said


def test_threads_are_bound_in_any_run(given):
    given(GLIBC)
    chosen = a_plan(["arguments"], ["glibc"], rounds=1, more="warm_up = 0")
    (line,) = runs(measured(chosen, Choice(pin="spread")))
    assert line["stderr"] == "--preset two-cores --pin spread\n"
    with pytest.raises(typer.Exit):
        run.run(["steady"], pin="tight")


@pytest.fixture
def machine_pages(monkeypatch, tmp_path):
    """The machine's setting of huge pages, and workloads that log it beside their process's."""
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never")
    monkeypatch.setattr(huge_pages, "SETTING", setting)
    told = f'(cat {setting}; echo; grep THP_enabled /proc/self/status) > "$GATES/$$"; report cafe'
    script = fake_workloads.HEAD.replace("LIBC", str(libc())) + told + "\n"
    (places.workload_dir() / "steady").write_text(script)
    monkeypatch.setenv("GATES", str(tmp_path))
    return setting


def paged(modes: list[str]) -> tuple[list[dict], set[str]]:
    """The records of a plan with these settings, and what its processes saw."""
    head = f'allocators = ["glibc"]\nrounds = 1\nwarm_up = 0\nhuge_pages = {json.dumps(modes)}'
    text = fake_workloads.plan_text(fake_workloads.tables("steady"), head)
    records = measured(plan.parse(text, "try.toml"))
    files = [file for file in huge_pages.SETTING.parent.glob("[0-9]*") if file.is_file()]
    seen = {" ".join(file.read_text().split()) for file in files}
    assert "THP_enabled:\t1" in Path("/proc/self/status").read_text()  # the driver's own is back
    return records, seen


def test_the_setting_of_huge_pages_is_an_axis_and_given_back(given, machine_pages):
    given(GLIBC)
    records, seen = paged(["always", "never"])
    names = [cell["cell"] for cell in records[0]["cells"]]
    assert names == ["steady huge_pages=always", "steady huge_pages=never"]
    assert records[0]["cells"][0]["x"] == {"huge_pages": "always"} and not any(failures(records))
    assert seen == {"always THP_enabled: 1", "madvise THP_enabled: 0"}
    assert machine_pages.read_text() == "madvise"


def test_never_needs_no_privileges_and_what_the_machine_has_is_not_set(
    given, machine_pages, monkeypatch
):
    given(GLIBC)
    nobody = SimpleNamespace(access=lambda *_: False, W_OK=os.W_OK)
    monkeypatch.setattr(huge_pages, "os", nobody)
    records, seen = paged(["always", "madvise", "never"])
    missing = [cell["missing"] for cell in records[0]["cells"]]
    assert missing[1:] == [None, None] and not any(failures(records)) and len(runs(records)) == 2
    assert missing[0].startswith("huge_pages = always: the machine's are madvise, and only root")
    before = machine_pages.read_text()
    assert before == "always [madvise] never"  # nobody wrote to it
    assert seen == {f"{before} THP_enabled: 1", f"{before} THP_enabled: 0"}


def test_a_kernel_without_huge_pages_runs_no_cell_that_names_them(given, machine_pages):
    given(GLIBC)
    machine_pages.unlink()
    records, _ = paged(["never"])
    missing = {cell["missing"] for cell in records[0]["cells"]}
    assert missing == {"this kernel has no transparent huge pages"}


# --- resuming --------------------------------------------------------------------------------


COMMAND = """
from nearlab import commands
from nearlab.runs import busy, driver
driver.touch_memory = lambda: None  # the test has no time for it
busy.disturbance = lambda *_: None
commands.main()
"""


def command(*words: str) -> subprocess.Popen:
    """The command line in a separate process."""
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", *words],
        env={**os.environ, "PYTHONPATH": str(places.ROOT / "lab")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_runs(results: Path, count: int, process: subprocess.Popen) -> None:
    """Waits until the newest result holds so many runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        files = list(results.glob("try/*.jsonl"))
        if files and files[0].read_bytes().count(b'"kind": "run"') >= count:
            return
        time.sleep(0.01)
    pytest.fail(f"{count} runs were not reached: {process.stderr.read()}")


def test_an_ended_run_goes_on_with_exactly_what_is_missing(tmp_path, monkeypatch):
    cells = ("steady", "first-gate", "second-gate", "crash")
    head = 'allocators = ["glibc", "nearmalloc"]\nrounds = 3'
    path = tmp_path / "try.toml"
    path.write_text(fake_workloads.plan_text(fake_workloads.tables(*cells), head))
    results = places.plan_results()
    monkeypatch.setenv("GATES", str(tmp_path))
    for gate in cells[1:3]:
        (tmp_path / gate).touch()  # such a run waits until its gate is gone

    first = command(str(path), "--allocators", "nearmalloc,glibc", "--rounds", "3")
    wait_for_runs(results, 2, first)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 130, first.stderr.read()
    said = first.stderr.read()
    again = shlex.split(re.search(r"\nnearlab run (.*)\n", said)[1])
    (result,) = results.glob("try/*.jsonl")
    assert journal.read(result)[-1]["kind"] == "end" and not journal.read(result)[-1]["complete"]

    (tmp_path / "first-gate").unlink()
    second = command(*again)
    wait_for_runs(results, 4, second)
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    before = result.read_bytes()
    with result.open("ab") as file:
        file.write(b'{"kind": "run", "cell": "second-gate", "alloc')

    (tmp_path / "second-gate").unlink()
    third = command(*again)
    out, err = third.communicate(timeout=120)
    assert third.returncode == 0, err
    assert "first-gate" in out and result.name in out
    assert result.read_bytes().startswith(before) and before.endswith(b"\n")
    assert list(results.glob("try/*.jsonl")) == [result]

    records = journal.read(result)
    done = [(one["cell"], one["allocator"], one["round"]) for one in runs(records)]
    names = ("glibc", "nearmalloc")
    assert sorted(done) == sorted(itertools.product(cells, names, range(4)))
    assert [one["kind"] for one in records].count("resume") == 2 and journal.is_complete(records)
    texts = failures(records, cell="crash", allocator="glibc")
    assert texts == ["ended by SIGSEGV"] * 2 + ["failed before: ended by SIGSEGV"] * 2


def test_an_answer_is_remembered_over_an_end(given, monkeypatch):
    given(GLIBC)
    chosen = a_plan(["moody"], ["glibc"], rounds=1)
    monkeypatch.setattr(driver.Driver, "_skipped", interrupted)
    real = driver.Driver._run

    def once(self, step):
        monkeypatch.setattr(driver.Driver, "_run", interrupted)
        return real(self, step)

    monkeypatch.setattr(driver.Driver, "_run", once)
    with pytest.raises(KeyboardInterrupt):
        measured(chosen)
    monkeypatch.setattr(driver.Driver, "_run", real)
    records = measured(chosen, resume=True)
    good, bad = runs(records)
    assert good["failure"] is None and good["result"]["checksum"] in bad["failure"]


def interrupted(*_):
    raise KeyboardInterrupt


def test_only_the_same_choices_and_libraries_go_on(given, monkeypatch):
    given(GLIBC)
    chosen = a_plan(["steady"], ["glibc"], rounds=2)
    monkeypatch.setattr(driver.Driver, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured(chosen)
    with pytest.raises(journal.JournalError, match="no unfinished result"):
        measured(chosen, Choice(rounds=3), resume=True)
    with pytest.raises(journal.JournalError, match="no unfinished result"):
        measured(a_plan(["steady", "slow"], ["glibc"]), resume=True)
    given(Allocator("glibc", "glibc", None, "3"))
    with pytest.raises(journal.JournalError, match="glibc is another now"):
        measured(chosen, resume=True)


def test_a_result_is_written_by_one_run_at_a_time(tmp_path):
    with journal.Journal.create(tmp_path) as first:
        first.write({"kind": "plan"})
        with pytest.raises(journal.JournalError, match="is being written"):
            journal.Journal.reopen(first.path)
        with journal.Journal.create(tmp_path) as second:
            assert second.path != first.path
    with first.path.open("ab") as file:
        file.write(b'{"kind": "run", "half": "' + b"x" * 999)
    journal.Journal.reopen(first.path).write({"kind": "end", "complete": True})
    assert first.path.read_bytes().endswith(b"}\n") and b"half" not in first.path.read_bytes()
    assert [one["kind"] for one in journal.read(first.path)] == ["plan", "end"]


def test_a_broken_line_in_the_middle_is_told(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"kind": "plan"}\nhalf\n{"kind": "end"}\n')
    with pytest.raises(journal.JournalError, match=r"a\.jsonl: line 2 is not a line of results"):
        journal.read(tmp_path / "a.jsonl")


# --- the probe -------------------------------------------------------------------------------


def test_the_probe_is_a_short_piece_of_work_that_asks_for_no_memory():
    assert 0.0005 < true_probe() < 5
    sample = measure.run_child([places.bench_dir() / "probe"], count_calls=True)
    assert sample.syscalls is None or sample.syscalls["brk"] <= 1


TIMELINES = """
[[timeline]]
name = "one"
cell = "recorder"
allocators = ["glibc"]
[[timeline]]
name = "again"
cell = "recorder"
allocators = ["glibc"]
"""


def test_a_timeline_is_one_more_run_and_a_file_beside_the_result(given):
    given(GLIBC, ABSENT)
    chosen = a_plan(["recorder", "steady"], ["glibc", "mimalloc2"])
    chosen = plan.parse(chosen.text + TIMELINES, "try.toml")
    records = measured(chosen)
    (one,) = [record for record in records if record["kind"] == "timeline"]
    assert (one["cell"], one["allocator"], one["failure"]) == ("recorder", "glibc", None)
    (path,) = places.plan_results().glob("try/*.jsonl")
    written = (journal.timelines_of(path) / one["file"]).read_text()
    assert written.startswith("--preset two-cores --timeline")
    assert not any("--timeline" in word for cell in records[0]["cells"] for word in cell["argv"])
    found = record.read(path)
    assert found.extras["timeline"]["recorder", "glibc"]["result"]["operations"] == 100


def test_a_timeline_that_is_not_written_is_a_failure(given, monkeypatch):
    given(GLIBC)
    (places.workload_dir() / "recorder").write_text(
        fake_workloads.HEAD.replace("LIBC", str(libc())) + "report cafe\n"
    )
    chosen = plan.parse(a_plan(["recorder"], ["glibc"]).text + TIMELINES, "try.toml")
    (one,) = [record for record in measured(chosen) if record["kind"] == "timeline"]
    assert one["failure"] == "no timeline was written"
