"""What runs that are not timed tell: calls of malloc, memory calls, instructions, timelines.

Invariant: nothing here adds to the timed runs; what cannot be counted has its reason in `failure`.
Thread-safety: one thread (the driver).
"""

from dataclasses import replace
from pathlib import Path

from . import callgrind, counting, measure
from .cells import Cell
from .counting import Counted
from .peers import Allocator
from .work import Bench

BASE = "glibc"  # under which the share of malloc in a program's time is told
_EMPTY = {
    "count": ("calls", "syscalls", "malloc_share"),
    "instructions": ("instructions",),
    "timeline": ("file", "result"),
}
_CALLGRIND_SLOWDOWN = 60  # what a time-out is stretched by


def empty(kind: str, cell: Cell, allocator: Allocator, failure: str | None) -> dict:
    """The record of something that was not counted, and why."""
    nothing = dict.fromkeys(_EMPTY[kind])
    named = {"kind": kind, "cell": cell.name, "allocator": allocator.name}
    return {**named, **nothing, "failure": failure}


def count(bench: Bench, cell: Cell, allocator: Allocator) -> dict:
    """A record of kind `count`."""
    with measure.children(count_calls=True):
        outcome = bench.run(cell, allocator)
    found = empty("count", cell, allocator, outcome.failure)
    if outcome.failure or outcome.sample is None:
        return found
    if outcome.sample.syscalls_refused:
        found["failure"] = f"system calls: {outcome.sample.syscalls_refused}"
    found["syscalls"] = outcome.sample.syscalls
    try:
        counted = _count_malloc(bench, cell, allocator)
    except (measure.MeasureError, OSError) as error:
        return found | {"failure": str(error)}
    if counted.failure:
        return found | {"failure": f"calls of malloc: {counted.failure}"}
    found["calls"] = counted.calls.to_json()
    found["malloc_share"] = counted.malloc_share if allocator.name == BASE else None
    return found


def _count_malloc(bench: Bench, cell: Cell, allocator: Allocator) -> Counted:
    """A run of its own: the counter makes memory calls as well."""
    if not cell.real_program:
        env = cell.environment
        return counting.count(cell.argv, allocator, env=env, timeout=cell.timeout_s)
    with counting.children() as calls:
        outcome = bench.run(cell, allocator)
        return Counted(calls(), outcome.sample, outcome.failure)


def instructions(cell: Cell, allocator: Allocator) -> dict:
    """A record of kind `instructions`, of a workload."""
    counted = callgrind.count(
        cell.argv,
        allocator.library,
        dict(allocator.environment) | cell.environment,
        cell.timeout_s * _CALLGRIND_SLOWDOWN,
    )
    found = empty("instructions", cell, allocator, counted.failure)
    return found | {"instructions": counted.instructions}


def timeline(bench: Bench, cell: Cell, allocator: Allocator, folder: Path) -> dict:
    """A record of kind `timeline`; the file is in `folder`, named without it."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{len(list(folder.iterdir())) + 1}.timeline"
    outcome = bench.run(replace(cell, argv=(*cell.argv, "--timeline", str(file))), allocator)
    found = empty("timeline", cell, allocator, outcome.failure)
    if outcome.failure is None and not file.is_file():
        found["failure"] = "no timeline was written"
    return found | {"file": file.name, "result": outcome.result}
