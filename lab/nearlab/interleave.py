"""The order of interleaved runs, and the state of the machine they meet.

Within a round each case runs once under each allocator. Over the rounds every allocator takes every
place and follows every other, so neither the machine's drift nor the preceding run favours one
(Williams 1949, Experimental designs balanced for the estimation of residual effects). Before each
run a driver touches memory and gives it back: on a virtual machine the first touch of a page that
the host took away costs ten times the usual, and would hit an allocator by chance. Invariant: every
driver takes its steps from `schedule`.
"""

import contextlib
import ctypes
import mmap
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .peers import Allocator


class Named(Protocol):
    """What is run: a case of the baseline, a cell of a plan, a program of the demo."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One run that is to be done. Counted rounds start at 1; those before warm up."""

    round: int
    case: Named
    allocator: Allocator
    place: int = 0  # in the order of the allocators, for this case in this round

    @property
    def key(self) -> str:
        """Steps with equal keys take about equally long."""
        return self.case.name

    def when(self) -> str:
        return f"round {self.round}" if self.round > 0 else "warm-up"

    def text(self) -> str:
        return f"{self.when()}: {self.case.name}, {self.allocator.label}"


def schedule(
    cases: Sequence[Named],
    allocators: Sequence[Allocator],
    rounds: Iterable[int],
    takes: Callable[[int, Named, Allocator], bool] = lambda *_: True,
) -> list[Step]:
    """All steps in order; `takes` tells if a case is run in a round under an allocator."""
    return [
        Step(number, case, allocator, place)
        for number in rounds
        for index, case in enumerate(cases)
        for place, allocator in enumerate(
            balanced([one for one in allocators if takes(number, case, one)], number + index)
        )
    ]


def balanced(items: Sequence, turn: int) -> list:
    """An order of `items`. In as many turns as there are items, each item takes every place; in as
    many (twice as many if their number is odd), each follows each other one equally often."""
    count = len(items)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    order = [items[(step + turn) % count] for step in zigzag]
    return order[::-1] if count % 2 and turn // count % 2 else order


def touch_memory(mib: int = 384) -> None:
    """Writes to fresh memory and gives it back, so that the next process gets pages that are near.
    384 MiB is more than any row of the baseline uses."""
    size = mib << 20
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with contextlib.suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.c_char.from_buffer(memory)
        try:
            ctypes.memset(ctypes.addressof(start), 1, size)
        finally:  # also when interrupted: mmap cannot unmap memory while `start` refers to it
            del start


def machine() -> dict:
    """What the numbers depend on and the repository does not say."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    huge_pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_kib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024,
        "kernel": platform.release(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "huge_pages": huge_pages.read_text().strip() if huge_pages.exists() else "none",
        "load": os.getloadavg()[0],
    }
