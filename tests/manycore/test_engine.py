"""The engine counts known patterns exactly, runs repeat, every end of a process has a result."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nearmanycore import machines, places, report, simulate
from nearmanycore.subjects import Subject
from nearmanycore.symbols import Symbols

PROGRAM = Path(os.environ["NEAR_MANYCORE_PROGRAMS"]) / "patterns"
ROOMS = machines.load("xeon-8160x4")  # sockets of 24 cores; processors 0 to 95 are cores
# Without its helper thread, which visits the heaps of others now and then and takes a processor.
ALONE = ("NEARMALLOC_PURGE_THREAD=0",)
NEAR = Subject("near", places.build() / "libnearmalloc.so", environment=ALONE)


def simulated(
    folder: Path, pattern: str, threads: int, count: int, processors: int = 96, seed: int = 1
) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
    command = [str(PROGRAM), pattern, str(threads), str(count)]
    done = simulate.execute(ROOMS, processors, seed, folder, NEAR, command, 120)
    return done, simulate.read(folder, done, pattern)


def region(record: dict[str, Any]) -> dict[str, Any]:
    found: list[dict[str, Any]] = [r for r in record["regions"] if r["name"] == "pattern"]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("threads", [2, 3, 48])
def test_each_turn_is_a_transfer(tmp_path: Path, threads: int) -> None:
    count = 2000 if threads < 10 else 20
    done, record = simulated(tmp_path, "ping_pong", threads, count)
    assert done.returncode == 0
    assert f'"turn": {threads * count}' in done.stdout
    line = max(record["lines"], key=lambda each: each["waited"])
    own = [part for part in line["parts"] if part["offset"] == 0 and part["kind"] == "update"]
    updates = sum(part["count"] for part in own)
    # The first increment may find the line in no other core, or where the main thread left it.
    assert threads * count - 1 <= updates <= threads * count
    symbols = Symbols.of(record)
    assert symbols.data(int(line["address"], 16)) is not None
    assert "turn" in str(symbols.data(int(line["address"], 16)))


def test_far_transfers_are_between_sockets(tmp_path: Path) -> None:
    """Two neighbours in one socket; 48 threads in two sockets cross the border twice a round."""
    _, near = simulated(tmp_path, "ping_pong", 2, 500)
    assert region(near)["transfer_far"] == 0
    _, both = simulated(tmp_path, "ping_pong", 48, 20)
    assert region(both)["transfer_far"] > 0


def test_false_sharing_is_named_by_field(tmp_path: Path) -> None:
    _, record = simulated(tmp_path, "false_sharing", 4, 3000)
    symbols = Symbols.of(record)
    named = {
        report.part_name(symbols, line, part): line
        for line in record["lines"]
        for part in line["parts"]
    }
    lines = {line["address"] for name, line in named.items() if "one_line.own" in name}
    assert len(lines) == 1
    line = next(line for name, line in named.items() if "one_line.own" in name)
    fields = {name for name in named if "one_line.own" in name}
    assert {name.partition("own")[2][:3] for name in fields} >= {"[0]", "[1]", "[2]", "[3]"}
    assert report.is_falsely_shared(line["parts"])
    assert "false sharing" in report.line_texts(symbols, line)[0]


def test_one_counter_is_not_falsely_shared(tmp_path: Path) -> None:
    _, record = simulated(tmp_path, "ping_pong", 4, 200)
    line = max(record["lines"], key=lambda each: each["waited"])
    assert not report.is_falsely_shared(line["parts"])


def test_what_is_only_read_is_fetched_once(tmp_path: Path) -> None:
    _, record = simulated(tmp_path, "read_shared", 48, 1000)
    counts = region(record)
    moved = counts["transfer_near"] + counts["transfer_far"]
    fetched = counts["l3"] + counts["memory_local"] + counts["memory_remote"] + moved
    assert 48 <= fetched <= 3 * 48  # the line, and those of the program's own variables
    assert counts["l1"] >= 48 * 1000 - fetched


def test_private_lines_never_move(tmp_path: Path) -> None:
    _, record = simulated(tmp_path, "private_lines", 90, 200)
    counts = region(record)
    assert counts["atomics"] == 90 * 200
    on_lines = [
        line for line in record["lines"] if "privates" in str(Symbols.of(record).data(
            int(line["address"], 16)))
    ]
    assert on_lines == []


def test_a_convoy_waits_for_the_lock(tmp_path: Path) -> None:
    done, record = simulated(tmp_path, "convoy", 16, 100)
    assert '"guarded": 1600' in done.stdout
    locks = [lock for lock in record["locks"] if lock["kind"] == "mutex"]
    taken = [lock for lock in locks if lock["taken"] == 1600]
    assert len(taken) == 1
    assert 0 < taken[0]["contended"] <= 1600
    assert taken[0]["waited"] > 0
    assert "mutex" in str(Symbols.of(record).data(int(taken[0]["address"], 16)))


def test_every_new_page_is_a_fault(tmp_path: Path) -> None:
    _, record = simulated(tmp_path, "faults", 32, 50)
    counts = region(record)
    assert counts["faults_small"] == 32 * 50
    assert counts["waited_address_space"] > 0


def test_returned_pages_interrupt_the_others(tmp_path: Path) -> None:
    _, record = simulated(tmp_path, "shootdowns", 8, 100)
    calls = {call["name"]: call for call in record["calls"]}
    assert calls["madvise"]["count"] == 100
    send = ROOMS.machine.ns.interrupt_send
    assert calls["madvise"]["ns"] >= 100 * 7 * send


def test_two_threads_of_a_core_slow_each_other(tmp_path: Path) -> None:
    """Processors 96 to 191 are the second threads of the cores."""
    each = {}
    for processors in (96, 192):
        ended = []
        for count in (10_000, 20_000):
            folder = tmp_path / f"{processors}-{count}"
            folder.mkdir()
            _, record = simulated(folder, "read_shared", processors, count, processors)
            ended.append(record["virtual_ns"])
        each[processors] = (ended[1] - ended[0]) / 10_000
    assert each[192] / each[96] == pytest.approx(ROOMS.machine.shared_core_percent / 100, rel=0.02)


def test_runs_repeat_to_the_last_event(tmp_path: Path) -> None:
    digests = set()
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, record = simulated(folder, "own_blocks", 24, 3)
        digests.add((record["digest"], record["virtual_ns"], record["events"]))
    assert len(digests) == 1


def test_more_threads_than_processors(tmp_path: Path) -> None:
    machine = machines.load("epyc-256")
    command = [str(PROGRAM), "convoy", "1024", "2"]
    done = simulate.execute(machine, 256, 1, tmp_path, NEAR, command, 240)
    record = simulate.read(tmp_path, done, "threads")
    assert '"guarded": 2048' in done.stdout
    assert record["processors"] == 256
    assert record["threads"] >= 1025


def test_threads_start_while_others_allocate(tmp_path: Path) -> None:
    """libc allocates in each start of a thread, also while others hold the allocator's locks."""
    program = places.build() / "lab/workloads/thread_churn"
    command = [str(program), "--threads", "16", "--generations", "160"]
    machine = machines.load("epyc-256")
    done = simulate.execute(machine, 16, 1, tmp_path, NEAR, command, 120)
    record = simulate.read(tmp_path, done, "threads")
    assert done.returncode == 0, done.stderr
    assert record["threads"] > 160


def test_a_deadlock_is_named(tmp_path: Path) -> None:
    done, record = simulated(tmp_path, "deadlock", 2, 1)
    assert done.returncode == 70
    assert "deadlock" in done.stderr
    assert "waits for a lock" in done.stderr
    assert record["ended"] == "deadlock"


def test_exit_of_one_thread_ends_the_process(tmp_path: Path) -> None:
    done, record = simulated(tmp_path, "exit", 8, 1)
    assert done.returncode == 3
    assert record["ended"] == "exit"


def test_a_crash_has_a_result(tmp_path: Path) -> None:
    done, record = simulated(tmp_path, "crash", 1, 1)
    assert done.returncode != 0
    assert record["ended"] == "signal 11"


def test_cost(tmp_path: Path) -> None:
    """The host's time for an event, printed; a machine that is busy may take ten times as long."""
    done, record = simulated(tmp_path, "own_blocks", 96, 40)
    assert done.returncode == 0
    each = record["host_ns"] / record["events"]
    print(f"{record['events']} events, {each:.0f} ns each")
    assert each < 2000


def test_own_blocks_move_no_line(tmp_path: Path) -> None:
    """malloc and free of a thread's own blocks share nothing with other threads."""
    _, record = simulated(tmp_path, "own_blocks", 64, 20)
    counts = region(record)
    symbols = Symbols.of(record)
    moved = counts["transfer_near"] + counts["transfer_far"]
    shown = "\n".join(text for line in record["lines"][:4]
                      for text in report.line_texts(symbols, line))
    assert moved == 0, f"{moved} transfers in {64 * 20 * 56} pairs\n{shown}"
