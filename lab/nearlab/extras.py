"""What is counted in runs that are not timed: calls of malloc, memory calls, instructions.

Invariant: nothing here adds to the timed runs; what cannot be counted has its reason in `failure`.
Touched by: the driver, one thread.
"""

from . import measure
from .cells import Cell
from .peers import Allocator
from .work import Bench

_CALLGRIND_SLOWDOWN = 60  # what a time-out is stretched by


def empty(kind: str, cell: Cell, allocator: Allocator, failure: str | None) -> dict:
    """The record of something that was not counted, and why."""
    nothing = {"instructions": None}
    if kind == "count":
        nothing = {"calls": None, "syscalls": None, "malloc_share": None}
    named = {"kind": kind, "cell": cell.name, "allocator": allocator.name}
    return {**named, **nothing, "failure": failure}


def count(bench: Bench, cell: Cell, allocator: Allocator) -> dict:
    """A record of kind `count`."""
    with measure.calls_counted():
        outcome = bench.run(cell, allocator)
    found = empty("count", cell, allocator, outcome.failure)
    if outcome.failure or outcome.sample is None:
        return found
    if outcome.sample.syscalls_refused:
        found["failure"] = f"system calls: {outcome.sample.syscalls_refused}"
    found["syscalls"] = outcome.sample.syscalls
    calls, share, problem = _malloc_calls(cell, allocator)
    found["calls"] = calls
    found["malloc_share"] = share if allocator.name == "glibc" else None
    found["failure"] = found["failure"] or problem
    return found


def _malloc_calls(
    cell: Cell, allocator: Allocator
) -> tuple[dict[str, int] | None, float | None, str | None]:
    """Calls by name, the part of the CPU time spent in them, or why neither is known."""
    return None, None, "calls of malloc are not counted yet"


def instructions(cell: Cell, allocator: Allocator) -> dict:
    """A record of kind `instructions`."""
    if cell.real_program:
        why = "a real program is not run under callgrind"
        return empty("instructions", cell, allocator, why)
    from . import callgrind

    counted = callgrind.count(
        cell.argv, allocator.library, cell.environment, cell.timeout_s * _CALLGRIND_SLOWDOWN
    )
    found = empty("instructions", cell, allocator, counted.failure)
    return found | {"instructions": counted.instructions}
