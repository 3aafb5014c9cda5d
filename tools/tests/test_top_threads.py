"""`./near top` says which thread has each heap, and nothing if it does not know."""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmalloc_tools.top import process as reading
from nearmalloc_tools.top import threads as module
from nearmalloc_tools.top.census import Census, OfHeap, Reader
from nearmalloc_tools.top.threads import Threads
from nearmalloc_tools.top.view import History
from test_top import LIBRARY, command, in_text, program

# It answers one expression of each line with one line.
PROGRAM = """
import ctypes, os, signal, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
started = {}
def work(name, has_begun, may_end):
    libc.prctl(15, name, 0, 0, 0)
    libc.malloc(500)
    has_begun.set()
    may_end.wait()
def start(name):
    has_begun, may_end = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(name, has_begun, may_end), daemon=True)
    thread.start()
    has_begun.wait()
    started[name] = (thread, may_end)
    return thread.native_id
def end(name):
    thread, may_end = started[name]
    may_end.set()
    thread.join()
def fork():
    child = os.fork()
    if child == 0:
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # it ends with its parent
        signal.pause()
    return child
kept = []
def place(number):
    kept.append(ctypes.c_uint32(number))
    return ctypes.addressof(kept[-1])
libc.malloc(500)
print("ready", flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
"""
NAMES = ("worker-1", "worker-2", "x")


def ask(child: subprocess.Popen[str], expression: str) -> str:
    assert child.stdin and child.stdout
    child.stdin.write(f"{expression}\n")
    child.stdin.flush()
    return child.stdout.readline().strip()


def start(child: subprocess.Popen[str], name: str | bytes) -> int:
    """The kernel's number of a new thread of that name."""
    return int(ask(child, f"start({os.fsencode(name)!r})"))


def reader_of(pid: int) -> Reader:
    process = reading.Process(pid)
    return Reader(process, reading.find_layout(process), Threads(process))


def heaps_with(census: Census, thread: int) -> list[OfHeap]:
    return [heap for heap in census.heaps if heap.thread == thread]


def await_heap(reader: Reader, number: int, is_so: Callable[[OfHeap], bool]) -> OfHeap:
    """The heap of that number when something is true of it: threads end a moment later."""
    end = time.monotonic() + 20
    while not is_so(heap := reader.take().heaps[number]):
        assert time.monotonic() < end, heap
        time.sleep(0.01)
    return heap


def test_each_heap_has_the_number_and_the_name_of_its_thread() -> None:
    with program(script=PROGRAM) as child:
        numbers = {name: start(child, name) for name in NAMES}
        census = reader_of(child.pid).take()
        for name, number in numbers.items():
            assert [heap.thread_name for heap in heaps_with(census, number)] == [name]
        main = heaps_with(census, child.pid)
        assert [heap.thread_name for heap in main] == [census.name]
        assert all(heap.state == "used" for heap in census.heaps if heap.thread is not None)
        text = command(str(child.pid), "--once").stdout
        printed = json.loads(command(str(child.pid), "--once", "--json").stdout)
    assert all(f"{number} {name}" in text for name, number in numbers.items())
    said = {heap["thread"]: heap["thread_name"] for heap in printed[0]["heaps"]}
    expected = {number: name for name, number in numbers.items()} | {child.pid: census.name}
    assert {thread: name for thread, name in said.items() if thread is not None} == expected


def test_a_thread_that_ended_has_no_heap_and_the_next_one_takes_it_over() -> None:
    with program(script=PROGRAM) as child:
        first = start(child, "first")
        reader = reader_of(child.pid)
        (heap,) = heaps_with(reader.take(), first)
        ask(child, "end(b'first')")
        parked = await_heap(reader, heap.number, lambda each: each.state == "parked")
        assert (parked.thread, parked.thread_name) == (None, None)
        assert not heaps_with(reader.take(), first)
        second = start(child, "second")
        (taken,) = heaps_with(reader.take(), second)
        assert (taken.number, taken.thread_name) == (heap.number, "second")


def test_after_fork_each_process_has_its_own_threads() -> None:
    """In the child only the thread that forked goes on."""
    with program(script=PROGRAM) as child:
        numbers = [start(child, name) for name in NAMES]
        forked = int(ask(child, "fork()"))
        reader = reader_of(forked)
        census = reader.take()
        end = time.monotonic() + 20
        while not heaps_with(census, forked) or sum(h.state == "used" for h in census.heaps) > 1:
            assert time.monotonic() < end, census.heaps  # it is still in the handlers of fork
            census = reader.take()
        (heap,) = [each for each in census.heaps if each.state == "used"]
        assert heap.thread == forked
        ours = reader_of(child.pid).take()
        assert all(len(heaps_with(ours, number)) == 1 for number in [*numbers, child.pid])
        inherited = heaps_with(ours, child.pid)[0].number
    assert heap.number == inherited


def test_names_do_no_harm_to_a_terminal() -> None:
    """They may have any bytes, such as the beginning of an order to the terminal."""
    with program(script=PROGRAM) as child:
        number = start(child, b"\x1b[2J[/x]\xff")
        text = command(str(child.pid), "--once").stdout
    assert f"{number} ?[2J[/x]\ufffd" in text and "\x1b" not in text


def poke(pid: int, place: int, number: int) -> None:
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(place)
        memory.write(number.to_bytes(8, "little"))


def test_a_process_cannot_name_a_thread_that_it_does_not_have() -> None:
    with program(script=PROGRAM) as child:
        own = start(child, "own")
        reader = reader_of(child.pid)
        heap = heaps_with(reader.take(), own)[0].number
        at = reader.process.number(reader.layout.addresses["heaps"] + 8 * heap)
        at += reader.layout["heap.thread"]
        offset = module._place(reader.process)
        assert offset is not None
        for number, expected in ((child.pid, child.pid), (os.getpid(), None), (1, None), (0, None)):
            poke(child.pid, at, int(ask(child, f"place({number})")) - offset)
            assert reader.take().heaps[heap].thread == expected
        for nowhere in (0, 8, 2**64 - 8):
            poke(child.pid, at, nowhere)
            assert reader.take().heaps[heap].thread is None


@pytest.mark.parametrize("descriptor", [(64, 1, 0), (32, 2, 0), None])
def test_a_descriptor_of_another_form_is_not_used(
    descriptor: tuple[int, int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = reading.Process(os.getpid())
    word = ctypes.create_string_buffer(struct.pack("<3I", *(descriptor or (32, 1, 0))))
    address = ctypes.addressof(word)
    monkeypatch.setattr(own, "symbol", lambda *_: address)
    block = ctypes.c_uint32(os.getpid())
    threads = Threads(own)
    threads.look()
    found = threads.of(ctypes.addressof(block))
    assert found == (None if descriptor else os.getpid())
    address = 4096  # not mapped
    assert Threads(own).of(ctypes.addressof(block)) is None


def test_where_the_c_library_does_not_say_it_no_thread_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with program(script=PROGRAM) as child:
        start(child, "worker")
        old = reader_of(child.pid)
        del old.layout.numbers["heap.thread"]  # a library that does not have it yet
        monkeypatch.setattr(module, "_SYMBOL", "near_no_such_symbol")
        for reader in (old, reader_of(child.pid)):
            census = reader.take()
            assert len(census.heaps) > 1
            assert {(heap.thread, heap.thread_name) for heap in census.heaps} == {(None, None)}
            history = History()
            history.add(census)
            assert "thread" not in in_text(history)


def test_in_a_container_threads_have_the_numbers_of_the_machine() -> None:
    """The process itself has number 1 there, and its threads the next ones."""
    if not shutil.which("unshare"):
        pytest.skip("not installed: unshare")
    user = [] if os.geteuid() == 0 else ["--user"]
    words = ["unshare", *user, "--pid", "--fork", "--kill-child", sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        words,
        env=os.environ | {"LD_PRELOAD": LIBRARY},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as outside:
        try:
            assert outside.stdout
            if outside.stdout.readline() != "ready\n":
                pytest.skip("the kernel refuses namespaces here")
            inside = start(outside, "inside")
            folder = Path(f"/proc/{outside.pid}/task/{outside.pid}")
            pid = int((folder / "children").read_text())
            census = reader_of(pid).take()
            threads = {int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()}
        finally:
            outside.kill()
    found = {heap.thread: heap.thread_name for heap in census.heaps if heap.thread is not None}
    assert inside < 10 and pid > 10, "they see other numbers"
    assert set(found) <= threads, "one is the purge thread, which has no heap"
    assert found[pid] == census.name and sorted(found.values()) == sorted(["inside", census.name])
