"""`./near top` reads running processes: it says what they hold, and why it cannot read one."""

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from rich.console import Console

from modules import run_command
from nearmalloc_tools.amounts import amount
from nearmalloc_tools.top import process as reading
from nearmalloc_tools.top.census import Census, OfClass, OfEvent, OfHeap, OfNode, Reader
from nearmalloc_tools.top.command import _as_json, look
from nearmalloc_tools.top.view import History, picture, show, sparkline

LIBRARY = os.environ["NEAR_LIBRARY"]

# Blocks of 3000 bytes, of which each second is freed; one large block; a thread that frees the
# blocks of another; then it waits.
PROGRAM = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(3000) for _ in range(2000)]
small = [libc.malloc(700) for _ in range(2000)]
hot = [libc.malloc(1000) for _ in range(30)]
large = libc.malloc(5_000_000)
free = lambda some: [libc.free(block) for block in some]
free(blocks[::2])
thread = threading.Thread(target=free, args=(small[::2],))
thread.start(); thread.join()
print("ready", flush=True)
for line in sys.stdin:
    free(blocks[1::2] + hot)
    print("freed", flush=True)
"""


@contextmanager
def program(
    library: str = LIBRARY, script: str = PROGRAM, stderr: TextIO | None = None, **options: str
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | ({"LD_PRELOAD": library} if library else {}) | options,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    ) as child:
        try:
            assert child.stdout and child.stdout.readline() == "ready\n"
            yield child
        finally:
            child.kill()


def take(pid: int) -> Census:
    process = reading.Process(pid)
    return Reader(process, reading.find_layout(process)).take()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command("top", *words)


def of_size(census: Census, size: int) -> OfClass:
    """The class of the size, with those that serve it while a heap joins classes: when the thread
    moved to another node, its new heap does."""
    found = OfClass(size)
    for each in census.classes:
        if size <= each.size <= 1.25 * size:
            found.spans += each.spans
            found.live += each.live
            found.free += each.free
    return found


def take_settled(reader: Reader) -> Census:
    """A census of a process that waits."""
    for _ in range(100):
        first, second = reader.take(), reader.take()
        if first.classes == second.classes:
            return second
    raise AssertionError("the process goes on")


@pytest.mark.parametrize("topology", ["nodes=1", "nodes=2 cpus=0,1"])
def test_blocks_are_counted_as_they_are_held(topology: str) -> None:
    # No memory leaves between the looks.
    with program(NEARMALLOC_TOPOLOGY=topology, NEARMALLOC_DECAY_MS="60000") as child:
        before = take(child.pid)
        assert 1000 <= of_size(before, 3000).live <= 1100
        assert of_size(before, 3000).free >= 900
        assert before.total("large") >= 5_000_000
        assert 1 <= before.total("large_blocks") <= before.total("large") // 65536
        assert 1000 <= of_size(before, 700).live <= 1400
        assert sum(heap.freed_elsewhere for heap in before.heaps) >= 1000
        for heap in before.heaps:
            assert sum(heap.freed_of.values()) == heap.freed_elsewhere
            assert list(heap.freed_of) == [node.node for node in before.nodes]
        assert {heap.state for heap in before.heaps} >= {"used", "parked"}
        assert before.total("live") == sum(each.live_bytes for each in before.classes)
        assert before.total("free") == sum(each.free_bytes for each in before.classes)
        assert len(before.nodes) == int(topology[6])
        growth = [event for event in before.events if event.kind == "growth"]
        assert sum(event.bytes for event in growth) > 0
        assert all(event.seconds_ago < 600 for event in before.events)
        assert child.stdin and child.stdout
        child.stdin.write("free\n")
        child.stdin.flush()
        child.stdout.readline()
        after = take(child.pid)
        # Up to four freed blocks of a class wait for the next malloc, and count as live.
        assert 1000 <= of_size(before, 3000).live - of_size(after, 3000).live <= 1004
        # These are in a hot span, of which only its list says what is free.
        assert 27 <= of_size(before, 1000).live - of_size(after, 1000).live <= 33
        resident = (
            int(re.search(r"Rss: +(\d+)", Path(f"/proc/{child.pid}/smaps_rollup").read_text())[1])
            * 1024
        )
        assert abs(after.resident - resident) < 0.1 * resident


def test_free_blocks_that_the_profiler_has_marked_are_counted() -> None:
    """One block in 18 of a hot span's list is marked, and as many live ones are sampled."""
    script = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(112) for _ in range(500)]
print("ready", flush=True)
for line in sys.stdin:
    for block in blocks[:400]: libc.free(block)
    print("freed", flush=True)
"""
    on = {"NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_INTERVAL": "2000"}
    with program(script=script, NEARMALLOC_PROFILE_FILE="/dev/null", **on) as child:
        before = take(child.pid)
        assert child.stdin and child.stdout
        child.stdin.write("free\n")
        child.stdin.flush()
        child.stdout.readline()
        after = take(child.pid)
        assert 330 <= before.classes[6].live - after.classes[6].live <= 410
        assert before.classes[6].size == 112


def test_blocks_that_change_lists_while_they_are_counted_are_counted_once() -> None:
    """As if the owner took five blocks from each remote list just after that was read."""
    with program() as child:
        reader = Reader(process := reading.Process(child.pid), reading.find_layout(process))
        quiet = take_settled(reader)
        is_new: dict[int, bool] = {}
        in_hot = reader._free_in_hot
        number = process.number

        def free_in_hot(span, address: int, capacity: int) -> int:
            is_new[address + reader.layout["span.remote"]] = True
            return in_hot(span, address, capacity)

        def changing(address: int, size: int = 8) -> int:
            return number(address, size) + (5 << 16 if is_new.pop(address, False) else 0)

        reader._free_in_hot = free_in_hot  # type: ignore[method-assign]
        process.number = changing  # type: ignore[method-assign]
        assert reader.take().classes == quiet.classes


def test_it_agrees_with_the_statistics_of_the_process(tmp_path: Path) -> None:
    """The same memory as near_stats_json counts before and after, if nothing changed between."""
    write = 'libc.near_stats_json(ctypes.c_void_p(libc.fdopen(2, b"w")))'
    script = PROGRAM.replace("free(blocks[1::2] + hot)", write)
    script = script.replace("libc.malloc.restype", "libc.fdopen.restype = libc.malloc.restype")
    written = tmp_path / "stderr"
    with written.open("w") as errors, program(script=script, stderr=errors) as child:

        def tell() -> dict:
            assert child.stdin and child.stdout
            child.stdin.write("tell\n")
            child.stdin.flush()
            child.stdout.readline()
            text = written.read_text()
            return json.loads(text[text.rindex('{"version"') :])["totals"]

        for _ in range(20):
            totals, census, after = tell(), take(child.pid), tell()
            if all(totals[name] == after[name] for name in ("committed", "purged", "dirty")):
                break
        else:
            pytest.fail("the process gives memory back all the time")
    assert census.total("mapped") == totals["committed"]
    assert abs(census.total("large") - totals["large"]) <= 0.1 * totals["large"]
    assert abs(census.total("large_blocks") - totals["large_blocks"]) <= 1
    assert abs(census.total("dirty") - totals["dirty"]) <= 2 * 65536
    assert census.total("purged") == totals["purged"]
    held = sum(census.total(name) for name in ("live", "free", "large", "cached"))
    assert 0.85 * totals["in_spans"] <= held <= totals["in_spans"] + 65536


def test_the_command_prints_text_and_json() -> None:
    with program() as one, program() as other:
        printed = json.loads(command(str(one.pid), str(other.pid), "--once", "--json").stdout)
        assert [each["pid"] for each in printed] == [one.pid, other.pid]
        assert all(each["classes"] and each["nodes"] and each["heaps"] for each in printed)
        text = command(str(one.pid), "--once").stdout
        for words in (f"({one.pid}): ", "Memory by node", "Size classes", "Heaps: ", "3072"):
            assert words in text
        name = Path(f"/proc/{one.pid}/comm").read_text().strip()
        found = json.loads(command(name, "--once", "--json").stdout)
        assert {one.pid, other.pid} <= {each["pid"] for each in found}


def test_json_has_the_numbers_of_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    with program() as child:
        process = reading.Process(child.pid)
        census = take_settled(Reader(process, reading.find_layout(process)))
    printed = json.loads(json.dumps(_as_json(census)))
    show(census)
    text = capsys.readouterr().out
    assert 0 < printed["free_share"] < 1
    assert f"  {printed['free_share']:.0%} of the bytes in spans are free" in text
    rows = {
        int(row[1]): (row[2], row[3])
        for row in re.finditer(r"^ *(\d+)(?: +\d+){3}  +(\d\S* \w+)  +(\d\S* \w+)$", text, re.M)
    }
    assert len(rows) == 12
    of_size = {each["size"]: each for each in printed["classes"]}
    for size, shown in rows.items():
        found = of_size[size]
        assert (found["live_bytes"], found["free_bytes"]) == (
            found["live"] * size,
            found["free"] * size,
        )
        assert (amount(found["live_bytes"]), amount(found["free_bytes"])) == shown
    sums = [sum(each[name] for each in printed["classes"]) for name in ("live_bytes", "free_bytes")]
    assert printed["free_share"] == sums[1] / sum(sums)


def test_the_live_view_needs_a_terminal() -> None:
    with program() as child:
        result = command(str(child.pid))
    expected = "nearmalloc: the live view needs a terminal; --once prints one picture\n"
    assert (result.returncode, result.stderr) == (1, expected)


@pytest.mark.parametrize(
    "words,reason",
    [
        (["no-such-name", "--once"], "there is no process named no-such-name"),
        (["99999999", "--once"], "there is no process 99999999"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(words: list[str], reason: str) -> None:
    result = command(*words)
    assert (result.returncode, result.stderr) == (1, f"nearmalloc: {reason}\n")


def test_a_wrong_use_has_a_status_of_its_own() -> None:
    result = command("1", "--json")
    assert (result.returncode, result.stderr) == (2, "nearmalloc: --json needs --once\n")


def test_a_process_on_another_malloc_is_refused() -> None:
    with program(library="") as child:
        result = command(str(child.pid), "--once")
    assert result.returncode == 1
    assert result.stderr.endswith("does not run on nearmalloc\n")


def test_a_process_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with program() as child:
        monkeypatch.setattr(reading, "LAYOUT_VERSION", 0)
        with pytest.raises(reading.Refused, match="has another version of nearmalloc: its layout"):
            take(child.pid)


def test_a_process_that_may_not_be_read_is_refused() -> None:
    """As the user nobody, if this runs as root; else with a process of root."""
    if os.getuid() == 0:
        script = (
            "import os; from nearmalloc_tools.top import process as p\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "try: p.Process(PID).files()\n"
            "except p.Refused as refusal: print(refusal)\n"
            "try: p.Process(PID).read(4096, 8)\n"
            "except p.Refused as refusal: print(refusal)"
        )
        with program() as child:
            result = subprocess.run(
                [sys.executable, "-c", script.replace("PID", str(child.pid))],
                capture_output=True,
                text=True,
                check=False,
            )
        assert result.stdout.count("the rights of ptrace") == 2, result.stderr
    else:
        with pytest.raises(reading.Refused, match="the rights of ptrace"):
            reading.Process(1).files()


def test_memory_that_is_not_mapped_is_refused_and_ours_is_read() -> None:
    own = reading.Process(os.getpid())
    text = ctypes.create_string_buffer(b"near", 8)
    assert own.read(ctypes.addressof(text), 4) == b"near"
    with pytest.raises(reading.Refused, match="cannot read 0x1000"):
        own.read(4096, 8)


def test_rates_and_sparklines() -> None:
    assert sparkline([1, 1, 8]) == "▁▁█" and sparkline([5, 5]) == "▁▁"
    assert [amount(each) for each in (12, 2048, 3 << 20)] == ["12 B", "2.0 KiB", "3.0 MiB"]
    history = History()
    for purged, refills, taken in ((0, 0, 7.5), (3 << 20, 600, 10.5)):
        heap = OfHeap(1, 0, "used", refills, 0, 0, 0)
        nodes = [OfNode(0, purged=purged)]
        history.add(Census(1, "name", 100 << 20, taken, nodes, heaps=[heap]))
    shown = in_text(history)
    assert "returned 1.0 MiB/s" in shown
    assert re.search(r"1 +0 +used +200 +0", shown), "600 in three seconds"


def in_text(history: History) -> str:
    console = Console(width=132)
    with console.capture() as capture:
        console.print(picture(history))
    return capture.get()


def test_the_largest_size_of_an_event_is_a_least_size() -> None:
    history = History()
    events = [OfEvent("growth", 0, 0, 1, 1 << 20), OfEvent("purge", 0, 0, 2, 4 << 30, True)]
    history.add(Census(1, "name", 100 << 20, events=events))
    shown = in_text(history)
    assert "4.0 GiB or more" in shown and shown.count("or more") == 1


def test_a_process_that_lives_is_kept_and_one_that_ended_is_not() -> None:
    class Scripted:
        def __init__(self) -> None:
            self.results = [
                Census(1, "name", 1 << 20, 1),
                reading.Refused("cannot read 0x1000"),
                Census(1, "name", 2 << 20, 2),
                reading.Ended("it has ended"),
            ]

        def take(self) -> Census:
            result = self.results.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

    history = History()
    watched = [(Scripted(), history)]
    for resident, reason in ((1, False), (1, True), (2, False)):
        look(watched)
        assert len(watched) == 1
        shown = in_text(history)
        assert f"name (1): {resident}.0 MiB resident" in shown
        assert ("cannot read 0x1000" in shown) == reason
    look(watched)
    assert watched == []


def test_a_process_that_has_ended_is_told_from_one_that_cannot_be_read() -> None:
    with program() as child:
        process = reading.Process(child.pid)
        reader = Reader(process, reading.find_layout(process))
        reader.layout.addresses["topology"] = 4096
        with pytest.raises(reading.Refused, match="cannot read 0x1") as refused:
            reader.take()
        assert not isinstance(refused.value, reading.Ended)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(reading.Ended):  # nobody has waited for it yet
            reader.take()
        child.wait()
        with pytest.raises(reading.Ended):
            reader.take()


def test_heaps_have_the_kernels_node_numbers() -> None:
    """As on a machine whose nodes with memory are 2 and 5."""
    with program(NEARMALLOC_TOPOLOGY="nodes=2 cpus=0,1") as child:
        process = reading.Process(child.pid)
        reader = Reader(process, reading.find_layout(process))
        kernel_ids = reader.layout.addresses["topology"] + reader.layout["topology.kernel_id"]
        with Path(f"/proc/{child.pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(kernel_ids)
            memory.write(b"\2\0\5\0")
        census = reader.take()
    assert [node.node for node in census.nodes] == [2, 5]
    assert census.heaps and {heap.node for heap in census.heaps} <= {2, 5}
    assert {event.node for event in census.events} <= {2, 5}


def test_a_name_may_be_any_bytes() -> None:
    """Names that are not UTF-8 do no harm to others, and can be asked for."""
    rename = "ctypes.CDLL(None).prctl(15, b'caf\\xe9 near', 0, 0, 0)\nprint("
    with program(script=PROGRAM.replace("print(", rename, 1)) as child:
        refused = command("no-such-name", "--once")
        expected = "nearmalloc: there is no process named no-such-name\n"
        assert (refused.returncode, refused.stderr) == (1, expected)
        found = json.loads(command(os.fsdecode(b"caf\xe9 near"), "--once", "--json").stdout)
        assert child.pid in {each["pid"] for each in found}
