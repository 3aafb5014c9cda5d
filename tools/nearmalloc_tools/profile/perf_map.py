"""Names of code that a runtime compiled while it ran, from the file `/tmp/perf-PID.map`.

Runtimes write it for perf when they are asked to, as Node with --perf-basic-prof. Each line has the
start, the size and the name of a piece of code. A later line replaces earlier ones at the same
addresses, because the runtime used the memory again.
"""

import os
from bisect import bisect_right, insort
from pathlib import Path

from nearmalloc_tools.safe_open import safe_open

FOLDER = Path("/tmp")
_MOST_BYTES = 64 << 20


class PerfMap:
    """Pieces of code by address. Invariant: they do not overlap."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = []
        self._pieces: dict[int, tuple[int, str]] = {}  # by start: end and name
        for line in text.splitlines():
            words = line.split(maxsplit=2)
            try:
                start, size = int(words[0], 16), int(words[1], 16)
                self._add(start, start + size, words[2])
            except (IndexError, ValueError):  # the runtime may have ended while it wrote
                continue

    def _add(self, start: int, end: int, name: str) -> None:
        first = bisect_right(self._starts, start) - 1
        if first < 0 or self._pieces[self._starts[first]][0] <= start:
            first += 1
        while first < len(self._starts) and self._starts[first] < end:
            del self._pieces[self._starts.pop(first)]
        insort(self._starts, start)
        self._pieces[start] = (end, name)

    def name(self, address: int) -> str | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        end, name = self._pieces[self._starts[index]]
        return name if address < end else None


def read(pid: int, started: float, user: int, folder: Path = FOLDER) -> PerfMap:
    """The map of a process of that user, which began to be profiled then, in seconds of the clock.
    Empty if it has none, or if the file is of an earlier process with that number, or neither
    root's, nor that user's, nor this program's."""
    path = folder / f"perf-{pid}.map"
    try:
        with safe_open(path, {0, os.getuid(), user}, follow=False) as stream:
            if os.fstat(stream.fileno()).st_mtime >= int(started):
                return PerfMap(stream.read(_MOST_BYTES).decode(errors="replace"))
    except OSError:
        pass
    return PerfMap("")
