"""Before a sweep starts: how long it takes, and which cells the machine has no room for.

Invariant: both follow from the plan and the machine, before anything runs.
"""

import os
from collections.abc import Iterable
from pathlib import PurePath

from nearlab.peers import Allocator
from nearlab.plan.cells import Cell
from nearlab.sweeps.options import in_bytes, option

_PROGRAM = "sweep"
_LIVE, _WORK_MS = "64MiB", "60"  # the workload's defaults
# Seconds of a run on two virtual processors of 2024: touching memory and probing before and after
# it, and starting it; for each second of --work; for each GiB that is filled and checked.
_EACH_S, _WORK_S, _GIB_S = 0.35, 2.0, 2.5
_HEAP, _ROOM = 1.5, 0.8  # a heap may need so much of its live bytes, and have so much of the memory


def _is_point(cell: Cell) -> bool:
    return bool(cell.argv) and PurePath(cell.argv[0]).name == _PROGRAM


def _live(cell: Cell) -> int:
    return in_bytes(option(cell.argv, "live", _LIVE))


def no_room(cell: Cell) -> str | None:
    """Why the machine cannot hold a point's live bytes; None if it can, or for other workloads."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not _is_point(cell) or _live(cell) * _HEAP <= memory * _ROOM:
        return None
    needs, has = (_live(cell) * _HEAP / 2**30, memory / 2**30)
    return f"it may need {needs:.1f} GiB, and the machine has {has:.1f} GiB"


def seconds(cell: Cell) -> float:
    """About how long one run of a point takes, with what the lab does around it."""
    work_s = float(option(cell.argv, "work", _WORK_MS)) / 1000
    rest_s = float(option(cell.argv, "settle", "0")) / 1000
    return _EACH_S + _WORK_S * work_s + _GIB_S * _live(cell) / 2**30 + rest_s


def announcement(
    cells: Iterable[Cell], allocators: Iterable[Allocator], warm_up: int
) -> str | None:
    """One line for a plan of points alone: its runs, and how long they take; None for others."""
    ready = [cell for cell in cells if cell.missing is None]
    there = [one.name for one in allocators if one.available]
    if not ready or not all(map(_is_point, ready)):
        return None
    runs = {cell.name: (cell.rounds + warm_up) * sum(map(cell.takes, there)) for cell in ready}
    minutes = sum(runs[cell.name] * seconds(cell) for cell in ready) / 60
    return (
        f"{len(ready)} points under {len(there)} allocators: {sum(runs.values())} runs, "
        f"about {max(1, round(minutes))} minutes on a machine of two processors"
    )
