"""The live view of `./near top` fits the terminal, whatever its size and however many processes."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console

from nearmalloc_tools.top.census import Census, OfClass, OfEvent, OfHeap, OfNode
from nearmalloc_tools.top.live import Screenful, shares
from nearmalloc_tools.top.view import History
from test_top import program

TITLES = ("Memory by node", "Size classes", "Heaps: ", "Rare events")
TOP = ("nearmalloc_tools", "top")


def a_history(pid: int, nodes: int = 1) -> History:
    """Two censuses of a process with 20 classes, 30 heaps and 40 events."""
    history = History()
    for taken in (1, 2):
        history.add(
            Census(
                pid,
                f"server-{pid}",
                100 << 20,
                taken,
                [OfNode(node, mapped=1 << 30, live=100_000_000) for node in range(nodes)],
                [OfClass(16 * number, number, 1000, 10) for number in range(1, 21)],
                [OfHeap(n, 0, "used", n * taken, 0, 0, 0, n, "worker") for n in range(30)],
                [OfEvent("growth", 0, 0, second, 1 << 20) for second in range(40)],
            )
        )
    return history


def drawn(histories: list[History], height: int, width: int = 132) -> list[str]:
    console = Console(width=width, height=height)
    with console.capture() as capture:
        console.print(Screenful(histories), height=height, end="")
    return capture.get().removesuffix("\n").split("\n")


@pytest.mark.parametrize("width", [40, 80, 132, 250])
@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("height", [5, 10, 24, 50, 200, 1000])
def test_all_heads_are_there_and_no_line_is_too_much(
    height: int, processes: int, width: int
) -> None:
    lines = drawn([a_history(pid) for pid in range(processes)], height, width)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    heads = [line.split()[0] for line in lines if line.startswith("server-")]
    assert heads == [f"server-{pid}" for pid in range(processes)]


def test_tables_have_their_most_important_rows_and_say_what_is_missing() -> None:
    lines = drawn([a_history(1)], 24)
    assert len(lines) == 24, "no line is wasted"
    starts = [next(i for i, line in enumerate(lines) if line.startswith(t)) for t in TITLES]
    assert starts == sorted(starts)
    classes, heaps, events = (
        lines[begin:end] for begin, end in zip(starts[1:], [*starts[2:], 24], strict=True)
    )
    assert re.match(r" *320 ", classes[2]), "the largest class"
    assert re.match(r" *29 ", heaps[2]), "the busiest heap"
    assert re.match(r" *0\.0 ", events[2]), "the newest event"
    for table, whole in ((classes, 20), (heaps, 30), (events, 40)):
        shown = len(table) - 3
        assert shown >= 2 and table[-1].strip() == f"and {whole - shown} more"


def test_a_terminal_that_is_high_enough_shows_all() -> None:
    lines = drawn([a_history(1)], 200)
    assert not [line for line in lines if "more" in line]
    assert len([line for line in lines if "growth" in line]) == 40
    assert "" in lines, "blank lines separate the tables"


def test_each_process_has_its_share_of_the_height() -> None:
    lines = drawn([a_history(1), a_history(2)], 24)
    first, second = (i for i, line in enumerate(lines) if line.startswith("server-"))
    assert (first, second, len(lines)) == (0, 12, 24)
    for part in (lines[:12], lines[12:]):
        assert [any(line.startswith(title) for line in part) for title in TITLES[:3]] == [True] * 3


def test_what_a_small_process_does_not_need_others_get() -> None:
    small = History()
    small.add(Census(7, "small", 1 << 20, 1, [OfNode(0)]))
    lines = drawn([small, a_history(1)], 50)
    begin = next(i for i, line in enumerate(lines) if line.startswith("server-"))
    assert begin <= 14 and len(lines) == 50


def test_processes_beyond_the_height_are_counted() -> None:
    lines = drawn([a_history(pid) for pid in range(12)], 10)
    assert [line.split()[0] for line in lines[:9]] == [f"server-{pid}" for pid in range(9)]
    assert lines[9:] == ["and 3 more processes, for which the terminal is too low"]
    narrow = drawn([a_history(pid) for pid in range(12)], 10, 40)
    assert len(narrow) == 10 and narrow[9].startswith("and 3 more processes")


def test_the_reason_why_a_process_cannot_be_read_has_room() -> None:
    history = a_history(1)
    history.refused = "cannot read 0x1000"
    assert "cannot read 0x1000" in " ".join(drawn([history], 24, 80))
    nothing = History(refused="cannot read 0x2000")
    assert drawn([nothing, history], 24, 80)[0] == "cannot read 0x2000"


@pytest.mark.parametrize(
    "total,wants,expected",
    [
        (10, [20], [10]),
        (10, [2, 20, 20], [2, 4, 4]),
        (11, [2, 20, 20], [2, 5, 4]),
        (2, [5, 5, 5], [1, 1, 0]),
        (9, [1, 1], [1, 1]),
        (0, [1, 1], [0, 0]),
        (5, [], []),
    ],
)
def test_shares(total: int, wants: list[int], expected: list[int]) -> None:
    assert shares(total, wants) == expected


@contextmanager
def live_view(height: int, *pids: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The view in a terminal of that height, and the other end of the terminal."""
    ours, theirs = pty.openpty()
    resize(ours, height)
    sizes = ("COLUMNS", "LINES")  # they would hide the size of the terminal
    variables = {name: each for name, each in os.environ.items() if name not in sizes}
    view = subprocess.Popen(
        [sys.executable, "-m", *TOP, *map(str, pids), "--interval", "0.1"],
        stdin=theirs,
        stdout=theirs,
        env=variables | {"TERM": "xterm"},
    )
    os.close(theirs)
    try:
        yield view, ours
    finally:
        view.kill()
        view.wait()
        os.close(ours)


def resize(terminal: int, height: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", height, 132, 0, 0))


def screens(terminal: int) -> Iterator[list[str]]:
    """The pictures that the view draws, each after it moved the cursor to the first place."""
    text = b""
    while True:
        assert select.select([terminal], [], [], 60)[0], f"the view draws no more: {text!r}"
        text += os.read(terminal, 65536)
        *whole, text = text.split(b"\x1b[H")
        for each in whole:
            plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\r", b"", each).decode()
            if "Memory by node" in plain:
                yield [line.rstrip() for line in plain.split("\n")]


def test_two_processes_fit_a_terminal_of_24_lines_and_follow_its_size() -> None:
    with program() as one, program() as other, live_view(24, one.pid, other.pid) as (_, terminal):
        seen = screens(terminal)
        heads = [f"({one.pid}): ", f"({other.pid}): "]
        lines = next(seen)
        assert len(lines) == 24
        assert [line for line in lines if "): " in line] == [lines[0], lines[12]]
        assert heads[0] in lines[0] and heads[1] in lines[12]
        assert sum(line.startswith("Memory by node") for line in lines) == 2
        for height in (10, 60):
            resize(terminal, height)
            lines = next(each for each in seen if len(each) == height)
            assert all(any(head in line for line in lines) for head in heads)


def test_the_live_view_ends_with_its_process() -> None:
    with program() as child, live_view(60, child.pid) as (view, terminal):
        seen = screens(terminal)
        for _ in range(3):
            next(seen)
        assert view.poll() is None
        child.kill()
        child.wait()
        with contextlib.suppress(OSError):  # the other end was closed
            for _ in seen:
                pass
        assert view.wait(20) == 0
