"""The order of interleaved runs, and the state of the machine before each.

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
from typing import Any, Generic, Protocol, TypeVar

from nearlab.peers import Allocator


class Named(Protocol):
    """A cell of a plan: it has a name."""

    @property
    def name(self) -> str: ...


CaseT = TypeVar("CaseT", bound=Named)
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Step(Generic[CaseT]):
    """A run to do. Counted rounds start at 1; earlier ones warm up."""

    round: int
    case: CaseT
    allocator: Allocator
    place: int = 0  # of this allocator in the order of this case in this round

    def when(self) -> str:
        return f"round {self.round}" if self.round > 0 else "warm-up"

    def text(self) -> str:
        return f"{self.when()}: {self.case.name}, {self.allocator.label}"


def schedule(
    cases: Sequence[CaseT],
    allocators: Sequence[Allocator],
    rounds: Iterable[int],
    takes: Callable[[int, CaseT, Allocator], bool] = lambda *_: True,
) -> list[Step[CaseT]]:
    """All steps in order; `takes` tells if a case is run in a round under an allocator."""
    return [
        Step(number, case, allocator, place)
        for number in rounds
        for index, case in enumerate(cases)
        for place, allocator in enumerate(
            balanced([one for one in allocators if takes(number, case, one)], number + index)
        )
    ]


def balanced(items: Sequence[ItemT], turn: int) -> list[ItemT]:
    """Returns an order of `items` for a turn. Over as many turns as there are items, each item
    takes every place once. Over as many turns (twice as many for an odd number of items), each item
    follows each other item equally often."""
    count = len(items)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    order = [items[(step + turn) % count] for step in zigzag]
    return order[::-1] if count % 2 and turn // count % 2 else order


def touch_memory(mib: int = 384) -> None:
    """Writes to fresh memory and gives it back, so that the next process gets pages that the host
    backs already. 384 MiB is more than any cell of the plan `baseline` uses."""
    size = mib << 20
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with contextlib.suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.c_char.from_buffer(memory)
        try:
            ctypes.memset(ctypes.addressof(start), 1, size)
        finally:  # also when interrupted: mmap cannot unmap memory while `start` refers to it
            del start


def machine() -> dict[str, Any]:
    """Returns the properties of the machine that the numbers depend on."""
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
