"""A recording has the program's calls, however the program ends; a replay makes the same calls.

The known program is trace_calls.c. The tests count sizes that only it allocates, because the C
library's own calls (threads, the loader) are in the trace too.
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearlab import places
from nearlab.commands import application
from nearlab.measure import stacks, trace
from nearlab.plan import plan

HERE = Path(__file__).resolve().parent
HEADER = 24
OURS = ("", "nearmalloc")
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> Path:
    program = tmp_path_factory.mktemp("calls") / "trace_calls"
    source = HERE / "trace_calls.c"
    command = ["cc", "-O1", "-fno-builtin", "-pthread", "-o", program, source]
    subprocess.run(command, check=True)
    return program


def record(file: Path, program: Path, threads: int, rounds: int, ending: str) -> int:
    return trace.run_recorded(file, [str(program), str(threads), str(rounds), ending])


@pytest.fixture(scope="module")
def threaded(calls, tmp_path_factory) -> Path:
    """The trace of four threads with 3000 rounds each: some 70,000 events."""
    file = tmp_path_factory.mktemp("trace") / "threaded"
    assert record(file, calls, 4, 3000, "return") == 0
    return file


def replay(file: Path, library: str = "", rounds: int = 1) -> dict:
    preload = {"LD_PRELOAD": str(places.nearmalloc_library())} if library else {}
    command = [places.workload_dir() / "replay", "--file", file, "--rounds", str(rounds)]
    done = subprocess.run(command, env=os.environ | preload, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def traces_of_the_lab() -> list[tuple[str, int, int]]:
    """The name, the events and the threads of each, as lab/traces/README.md says."""
    text = (places.ROOT / "lab" / "traces" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \| (\d+) \|", text, re.MULTILINE)
    return [(name, int(events.replace(",", "")), int(threads)) for name, events, threads in rows]


@pytest.mark.parametrize("name,events,threads", traces_of_the_lab())
def test_a_trace_of_the_lab_is_as_described_and_runs_again_and_again(name, events, threads):
    summary = trace.read(places.lab_build() / "traces" / name)
    assert (summary.events, summary.threads) == (events, threads)
    once, thrice = (replay(Path(name), "nearmalloc", rounds) for rounds in (1, 3))
    assert thrice["verified"] and once["verified"]
    assert thrice["operations"] == 3 * once["operations"] > 0


def test_the_plan_traces_has_every_trace_of_the_lab():
    rows = plan.load(plan.find("traces")).rows
    names = [name for name, _, _ in traces_of_the_lab()]
    assert [row.options["file"] for row in rows] == names == [row.label for row in rows]
    assert len(names) >= 8


def of_size(summary: trace.Summary, least: int) -> int:
    return dict(summary.sizes).get(least, 0)


def calls_of(summary: trace.Summary, objects: int) -> bool:
    """True if every call of the program is there; the C library makes no aligned ones."""
    return (
        summary.calls["aligned"] == summary.calls["realloc"] == objects
        and 0 <= of_size(summary, 256) - objects <= 50
    )


def test_the_trace_of_a_known_program_counts_its_calls(threaded):
    summary = trace.read(threaded)
    objects = 4 * 3000
    assert summary.ended and summary.threads == 5 and summary.unknown_frees == 0
    assert objects <= of_size(summary, 256) <= objects + 50  # 300 bytes, aligned
    # 48; 96; 2 x 100 bytes. The C library adds a few calls.
    for least, name in ((32, "malloc"), (64, "realloc"), (128, "calloc")):
        assert objects <= of_size(summary, least) <= objects + 50
        assert objects <= summary.calls[name] <= objects + 150
    aligned = summary.calls["aligned"]
    assert objects <= aligned <= objects + 50
    assert 2 * objects + 100 <= summary.calls["free"] <= 2 * objects + 150
    # A realloc is two events.
    calls = sum(summary.calls.values()) + summary.calls["realloc"]
    assert summary.events == calls


def test_what_other_threads_free_is_seen(threaded):
    summary = trace.read(threaded)
    assert 4 * 3000 <= summary.remote_frees <= 4 * 3000 + 50


def test_the_peak_is_that_of_the_program(threaded):
    peak = 4 * 3000 * (96 + 200 + 300) + 100 * 5000
    assert peak <= trace.read(threaded).peak_live_bytes <= peak + 20_000


@pytest.mark.parametrize("library", OURS)
def test_a_replay_does_what_was_recorded(threaded, library):
    summary, result = trace.read(threaded), replay(threaded, library)
    assert result["verified"] and result["trace_threads"] == summary.threads
    ended = summary.calls["free"] + summary.calls["realloc"] - summary.unknown_frees
    assert result["operations"] == ended
    assert result["checksum"] == replay(threaded)["checksum"]


def test_a_recorded_replay_makes_the_calls_again(threaded, tmp_path):
    replayer = str(places.workload_dir() / "replay")
    again = tmp_path / "again"
    assert trace.run_recorded(again, [replayer, "--file", str(threaded)]) == 0
    first, second = trace.read(threaded), trace.read(again)
    for least in (32, 64, 128, 256):
        assert of_size(first, least) <= of_size(second, least) <= of_size(first, least) + 500
    assert 0 <= second.calls["aligned"] - first.calls["aligned"] <= 50
    assert second.calls["realloc"] >= first.calls["realloc"]


@pytest.mark.parametrize("ending,status", [("_exit", 5), ("kill", 128 + 9)])
def test_nothing_is_lost_when_the_program_ends_without_its_handlers(
    calls, tmp_path, ending, status
):
    assert record(tmp_path / "t", calls, 2, 2000, ending) == status
    summary = trace.read(tmp_path / "t")
    assert not summary.ended and calls_of(summary, 2 * 2000)
    assert replay(tmp_path / "t")["verified"]


def test_a_child_gets_a_file_of_its_own(calls, tmp_path):
    record(tmp_path / "t", calls, 2, 10, "fork")
    parent, child = (trace.read(file) for file in trace.files_of(tmp_path / "t"))
    assert parent.ended and calls_of(parent, 20) and of_size(parent, 512) < 7
    assert child.ended and child.calls["malloc"] == 7 and of_size(child, 512) == 7
    assert child.process != parent.process


def test_a_program_that_takes_the_place_of_another_gets_its_file(calls, tmp_path):
    record(tmp_path / "t", calls, 2, 10, "exec")
    (file,) = trace.files_of(tmp_path / "t")
    assert trace.read(file).ended and calls_of(trace.read(file), 20)
    shell = ["sh", "-c", f"exec env NOTHING=1 {calls} 2 30 return"]
    assert trace.run_recorded(tmp_path / "u", shell) == 0
    (file,) = trace.files_of(tmp_path / "u")
    assert calls_of(trace.read(file), 60), "what the shell and env allocated is not recorded"


def test_the_file_of_another_process_of_the_same_number_is_kept(calls, tmp_path):
    record(tmp_path / "t", calls, 2, 10, "exec")
    whole = (tmp_path / "t").read_bytes()
    time.sleep(3 / TICKS)  # two processes of one number do not start in the same tick
    started = int.from_bytes(whole[16:24], "little")
    assert started == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS, abs=60 * TICKS)
    script = (
        "import os, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    file.seek(12); file.write(os.getpid().to_bytes(4, 'little'))\n"
        "os.environ['LD_PRELOAD'] = sys.argv[2]; os.environ['NEAR_TRACE'] = sys.argv[1]\n"
        "os.execv(sys.argv[3], [sys.argv[3], '2', '10', 'return'])\n"
    )
    library = str(places.bench_dir() / "librecord.so")
    words = [sys.executable, "-c", script, str(tmp_path / "t"), library, str(calls)]
    subprocess.run(words, check=True)
    first, second = trace.files_of(tmp_path / "t")
    assert first.stat().st_size == len(whole) and calls_of(trace.read(second), 20)


def test_python_is_recorded_and_replayed(tmp_path):
    code = "print(sum(len(bytearray(7777)) for _ in range(50)))"
    assert trace.run_recorded(tmp_path / "t", [sys.executable, "-c", code]) == 0
    summary = trace.read(tmp_path / "t")
    assert summary.ended and of_size(summary, 4096) >= 50
    results = [replay(tmp_path / "t", library) for library in OURS]
    assert results[0]["checksum"] == results[1]["checksum"] and results[0]["operations"] > 1000


def test_a_long_trace_goes_on_in_further_windows(calls, tmp_path):
    assert record(tmp_path / "t", calls, 8, 10_000, "return") == 0
    assert (tmp_path / "t").stat().st_size > 1 << 20
    summary = trace.read(tmp_path / "t")
    assert summary.ended and calls_of(summary, 80_000)


def test_a_trace_of_the_preloaded_allocator_is_recorded_too(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", str(places.nearmalloc_library()))
    assert record(tmp_path / "t", calls, 2, 100, "return") == 0
    monkeypatch.delenv("LD_PRELOAD")
    assert calls_of(trace.read(tmp_path / "t"), 200)


def test_the_stacks_that_allocate_are_named(calls, tmp_path):
    command = [str(calls), "3", "1000", "return"]
    assert trace.run_recorded(tmp_path / "t", command, with_stacks=True) == 0
    found = stacks.most(tmp_path / "t", 1000)
    by_run = [one for one in found if "run" in one.frames[:1]]
    sizes = {(one.calls, one.bytes) for one in by_run}
    assert {(3000, 3000 * size) for size in (48, 96, 200, 300)} <= sizes
    by_main = [(one.calls, one.bytes) for one in found if one.frames[:1] == ("main",)]
    assert by_main == [(100, 500_000)]
    summary = trace.read(tmp_path / "t")
    assert 0 <= summary.bytes - sum(one.bytes for one in found) < 100_000, "early calls have none"
    shown = CliRunner().invoke(application(), ["trace", "info", str(tmp_path / "t")])
    assert "run < " in shown.output and trace.files_of(tmp_path / "t") == [tmp_path / "t"]


def test_stacks_are_kept_of_a_killed_process_and_of_a_child(calls, tmp_path):
    for ending, status, where in (("kill", 128 + 9, "main"), ("fork", 0, "fork_once")):
        command = [str(calls), "2", "20", ending]
        assert trace.run_recorded(tmp_path / ending, command, with_stacks=True) == status
        last = trace.files_of(tmp_path / ending)[-1]
        found = stacks.most(last, 5)
        assert any(one.frames[0] == where and one.bytes >= 7000 for one in found)


def test_times_are_kept_on_request(tmp_path):
    trace.run_recorded(tmp_path / "t", ["sh", "-c", "sleep 0.3; exit 0"])
    # The pause is in the trace of the first process, between two calls or after the last.
    file = max(trace.files_of(tmp_path / "t"), key=lambda each: trace.read(each).seconds)
    recorded = trace.read(file).seconds
    command = [places.workload_dir() / "replay", "--file", file, "--timed", "2"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["seconds"] >= 2 * recorded * 0.99
    assert replay(file)["seconds"] < recorded or recorded < 0.1


# --- invalid files ------------------------------------------------------------------------


def events_end(data: bytes) -> int:
    """The offset of the end event, which has a kind, a time of 0, a number."""
    at = len(data) - 1
    while data[at - 1] & 0x80:
        at -= 1
    return at - 2


@pytest.mark.parametrize("cut", [1, 2, 3, 40, 1001, 5000])
def test_a_truncated_file_is_refused(threaded, tmp_path, cut):
    (tmp_path / "t").write_bytes(threaded.read_bytes()[:-cut])
    with pytest.raises(trace.TraceError, match="truncated at byte"):
        trace.read(tmp_path / "t")


def test_a_file_cut_between_two_events_is_refused(threaded, tmp_path):
    data = threaded.read_bytes()
    (tmp_path / "t").write_bytes(data[: events_end(data)])
    with pytest.raises(trace.TraceError, match="truncated at byte"):
        trace.read(tmp_path / "t")


@pytest.mark.parametrize(
    "change,message",
    [
        (lambda data: b"", "not a malloc trace"),
        (lambda data: data[: HEADER - 1], "not a malloc trace"),
        (lambda data: b"text" + data[4:], "not a malloc trace"),
        (lambda data: data[:8] + b"\x63" + data[9:], "a trace of format 99"),
        (lambda data: data[:HEADER] + b"\x7f" + data[HEADER + 1 :], "an unknown event"),
        (lambda data: data + b"\0", "something behind the end"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "another number of events"),
        (lambda data: data[: HEADER + 1] + b"\xff" * 12, "a number of more than 64 bits"),
        (lambda data: data[:HEADER] + bytes(100), "has no events"),
        (lambda data: data[:HEADER] + bytes([1, 0, 8, 32, 1, 0, 8, 0, 0]), "allocated twice"),
        (lambda data: data[:HEADER] + bytes([6, 0, 8, 32, 0]), "realloc without a beginning"),
        (lambda data: data[:HEADER] + bytes([5, 0, 32, 5, 0, 2, 0]), "realloc within a realloc"),
        (lambda data: data[:HEADER] + bytes([0x81, 9, 0, 8, 32, 0]), "thread's number"),
    ],
)
def test_a_malformed_file_is_refused(threaded, tmp_path, change, message):
    (tmp_path / "t").write_bytes(change(threaded.read_bytes()))
    with pytest.raises(trace.TraceError, match=message) as raised:
        trace.read(tmp_path / "t")
    assert "\n" not in str(raised.value) and str(tmp_path / "t") in str(raised.value)


def test_a_damaged_file_never_crashes_the_reader(threaded, tmp_path):
    data = threaded.read_bytes()[:400]
    for at in range(HEADER, 400, 7):
        damaged = bytearray(data)
        damaged[at] ^= 0x5A
        (tmp_path / "t").write_bytes(bytes(damaged))
        with pytest.raises(trace.TraceError, match="truncated|malformed"):
            trace.read(tmp_path / "t")


# --- the command line ------------------------------------------------------------------


def test_info_says_what_is_in_a_trace(threaded):
    shown = CliRunner().invoke(application(), ["trace", "info", str(threaded)])
    summary = trace.read(threaded)
    assert shown.exit_code == 0
    assert f"{summary.events:,}" in shown.output and "ran to its end" in shown.output
    as_json = CliRunner().invoke(application(), ["trace", "info", "--json", str(threaded)])
    assert json.loads(as_json.output)["events"] == summary.events


def test_record_passes_the_exit_status_on_and_warns_of_too_few_events(tmp_path):
    arguments = ["record", "-o", str(tmp_path / "t"), "--", "sh", "-c", "exit 7"]
    shown = CliRunner().invoke(application(), arguments)
    assert shown.exit_code == 7 and "events are too few" in shown.output
    many = replace(trace.read(tmp_path / "t"), events=100_000)
    assert trace.warning(many) == ""


@pytest.mark.parametrize(
    "name,program,message",
    [
        ("there", "true", "exists"),
        ("none/t", "true", "is no folder"),
        ("t", "/no/such/program", "cannot run /no/such/program"),
    ],
)
def test_record_refuses_what_cannot_be(tmp_path, name, program, message):
    (tmp_path / "there").write_text("kept")
    shown = CliRunner().invoke(application(), ["record", "-o", str(tmp_path / name), "--", program])
    assert shown.exit_code == 2 and message in shown.output
    assert (tmp_path / "there").read_text() == "kept"


def test_info_of_no_trace_is_one_line(tmp_path):
    shown = CliRunner().invoke(application(), ["trace", "info", str(tmp_path)])
    assert shown.exit_code == 2 and shown.output.count("\n") == 1
