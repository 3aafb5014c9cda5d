"""What the workload `sweep` does: sizes, the order of releases, threads, and what memory it counts.

A recording of its calls shows the order and the sizes; a library of known footprint is not needed,
because a bound on the heap follows from the pages of the blocks.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from nearlab import places
from nearlab.measure import trace

MIB = 1 << 20
SIZES = places.ROOT / "lab" / "sizes"


def run(options: str) -> dict:
    command = [places.workload_dir() / "sweep", "--work", "1", *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@dataclass(frozen=True, slots=True)
class Event:
    """A call of malloc with its size, or of free (size None)."""

    address: int
    size: int | None


def events(tmp_path, options: str) -> Iterator[Event]:
    """The calls of malloc and free (lab/bench/trace_format.h); the workload makes few others."""
    command = [str(places.workload_dir() / "sweep"), "--work", "1", *options.split()]
    assert trace.run_recorded(tmp_path / "t", command) == 0
    data = iter((tmp_path / "t").read_bytes()[24:])

    def varint() -> int:
        value = 0
        for place, byte in enumerate(data):
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise EOFError

    malloc, calloc, aligned, free, _, resized, end = range(1, 8)
    address = 0
    while (kind := next(data)) & 0x7F not in (0, end):
        if kind & 0x80:
            varint()  # the thread
        varint()  # the time
        kind &= 0x7F
        if kind == aligned:
            varint()
        size = varint() if kind in (malloc, calloc, aligned, resized) else None
        coded = varint()
        address += coded // 2 if coded % 2 == 0 else -(coded + 1) // 2
        if kind in (malloc, free):
            yield Event(address % 2**64, size)


def sizes_of(tmp_path, options: str) -> Counter[int | None]:
    """How often each size was asked for."""
    return Counter(event.size for event in events(tmp_path, options))


@pytest.mark.parametrize("live", [100_000, 3 * MIB])
def test_it_holds_the_bytes_that_were_asked_for(live):
    found = run(f"--live {live} --size 1000 --threads 2")
    assert live <= found["asked_kib"] * 1024 < live + 2 * 1000


def test_the_heap_is_that_of_its_blocks_and_not_of_its_tables():
    for size, overhead in ((100, 1.2), (4000, 1.05), (100_000, 1.05)):
        found = run(f"--live 16MiB --size {size}")
        assert found["asked_kib"] < found["heap_full_kib"] < overhead * found["asked_kib"] + 300
        assert found["heap_per_byte"] == found["heap_full_kib"] / found["asked_kib"]
        assert found["heap_peak_kib"] >= found["heap_steady_kib"] >= found["asked_kib"]


def test_what_was_freed_is_not_live_and_pages_bound_what_must_stay():
    found = run("--live 8MiB --size 1000 --free 90 --settle 1")
    assert 0.08 < found["kept_kib"] / found["asked_kib"] < 0.12
    assert found["kept_kib"] < found["kept_pages_kib"] <= found["heap_rested_kib"] + 64
    assert "heap_rested_kib" not in run("--live 1MiB")


def test_idle_threads_add_memory_that_is_not_asked_for():
    with_idle = run("--live 1MiB --idle 8")
    assert with_idle["heap_full_kib"] > run("--live 1MiB")["heap_full_kib"]
    assert with_idle["asked_kib"] == 1024


def test_work_follows_from_the_options_and_is_shared_by_the_threads():
    one, two, eight = (run(f"--size 500 --threads {count}") for count in (1, 2, 8))
    assert two["operations"] == 2 * one["operations"]
    assert eight["operations"] == pytest.approx(two["operations"], rel=0.01)
    longer = run("--size 500 --work 3")
    assert longer["operations"] == pytest.approx(3 * one["operations"], rel=0.01)


def test_sizes_are_equally_far_apart_and_equally_likely(tmp_path):
    found = sizes_of(tmp_path, "--live 4MiB --smallest 100 --size 10000 --sizes 3")
    assert {100, 1000, 10_000} <= found.keys()
    counts = [found[size] for size in (100, 1000, 10_000)]
    assert max(counts) < 1.2 * min(counts)


def test_bands_use_every_size(tmp_path):
    found = sizes_of(tmp_path, "--live 1MiB --smallest 100 --size 10000 --sizes 3 --bands 3")
    assert {100, 1000, 10_000} <= found.keys()


def test_a_file_of_sizes_gives_the_shares(tmp_path):
    file = tmp_path / "sizes"
    file.write_text("2000 1\n# twice, and four times as often\n500 2\n\n800 4\n")
    found = sizes_of(tmp_path, f"--live 4MiB --sizes-from {file}")
    assert found[500] == pytest.approx(2 * found[2000], rel=0.1)
    assert found[800] == pytest.approx(4 * found[2000], rel=0.1)


@pytest.mark.parametrize("name", [file.name for file in SIZES.iterdir()])
def test_the_distributions_of_the_lab_name_their_source_and_are_read(tmp_path, name):
    lines = (SIZES / name).read_text().splitlines()
    assert any(line.startswith("# Source: ") for line in lines)
    sizes = [int(line.split()[0]) for line in lines if not line.startswith("#")]
    assert sizes == sorted(set(sizes))
    found = sizes_of(tmp_path, f"--live 4MiB --sizes-from {name}")
    assert found.keys() & set(sizes)
    assert run(f"--sizes-from {name}")["asked_kib"] >= 65536


@pytest.mark.parametrize("text", ["12", "12 0", "0 1", "12 1 1", "many 1", "9e9 1"])
def test_a_wrong_line_of_such_a_file_is_named(tmp_path, text):
    file = tmp_path / "sizes"
    file.write_text(f"64 1\n{text}\n")
    command = [places.workload_dir() / "sweep", "--sizes-from", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"sweep: {file}:2: not SIZE WEIGHT\n"


@pytest.mark.parametrize("order", ["lifo", "fifo", "random", "phases"])
def test_orders_release_what_their_names_say(tmp_path, order):
    """In which order are the ten blocks of the fill released?"""
    found = releases(tmp_path, f"--size 1003 --live 10030 --order {order} --batch 2")
    assert sorted(found) == list(range(10))
    newest_first = [9, 8, *range(8)]  # of the others, the run's end releases the oldest first
    if order == "lifo":
        assert found == newest_first
    elif order == "random":
        assert found not in (newest_first, sorted(found))
    else:
        assert found == sorted(found)


def releases(tmp_path, options: str) -> list[int]:
    """The numbers of the first ten blocks in the order of their releases."""
    number: dict[int, int] = {}  # by the address of a block
    made, found = 0, []
    for event in events(tmp_path, options):
        if event.size == 1003:
            number[event.address] = made
            made += 1
        elif event.size is None and (which := number.pop(event.address, 10)) < 10:
            found.append(which)
    return found
