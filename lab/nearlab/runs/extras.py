"""The runs that are not timed: they count calls of malloc, memory calls and instructions, or record
timelines.

Invariant: these runs do not affect the timed ones. If something cannot be counted, `failure` has
the reason. Thread-safety: one thread (the driver).
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nearlab import places
from nearlab.measure import callgrind, counting, harness, measure
from nearlab.measure.counting import Counted
from nearlab.peers import Allocator
from nearlab.plan.cells import Cell
from nearlab.results.record import LIMIT
from nearlab.runs.work import Bench

BASE = "glibc"  # the allocator under which malloc's share of the time is measured
_EMPTY = {
    "count": ("calls", "syscalls", "malloc_share", "harness_share"),
    "instructions": ("instructions",),
    "timeline": ("file", "result"),
}
_EMPTY_RUNS = 5
_CALLGRIND_SLOWDOWN = 60  # factor for a time-out


def empty(kind: str, cell: Cell, allocator: Allocator, failure: str | None) -> dict[str, Any]:
    """The record of something that was not counted, and why."""
    nothing = dict.fromkeys(_EMPTY[kind])
    named = {"kind": kind, "cell": cell.name, "allocator": allocator.name}
    return {**named, **nothing, "failure": failure}


def empty_process(allocator: Allocator) -> dict[str, Any]:
    """A record of kind `empty`: peak memory of processes that do nothing under the allocator."""
    program = places.bench_dir() / "nothing"
    environment = dict(allocator.environment)
    samples = [
        measure.run_child([program], preload=allocator.library, env=environment, timeout=60)
        for _ in range(_EMPTY_RUNS)
    ]
    kib = [sample.peak_total_kib for sample in samples if sample.ok]
    return {"kind": "empty", "allocator": allocator.name, "memory_kib": kib}


def harness_reference(cell: Cell, allocators: Iterable[Allocator]) -> str | None:
    """The one allocator of a workload under which the harness's share is counted: the baseline of
    all ratios, glibc or without it the first. The harness executes the same under each allocator,
    so its share of the baseline's instructions is the least ratio that any of them could reach."""
    names = [one.name for one in allocators if one.available and cell.takes(one.name)]
    names = [name for name in names if name != LIMIT and not cell.real_program]
    return BASE if BASE in names else next(iter(names), None)


def count(bench: Bench, cell: Cell, allocator: Allocator, harness_too: bool) -> dict[str, Any]:
    """A record of kind `count`; `harness_too` counts the harness's share as well."""
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
    if harness_too:
        env = dict(allocator.environment) | cell.environment
        share = harness.share(cell.argv, allocator.library, env)
        found |= {"harness_share": share.value, "harness_failure": share.failure}
    return found


def _count_malloc(bench: Bench, cell: Cell, allocator: Allocator) -> Counted:
    """Counts malloc in a separate run, because the counter itself makes memory calls."""
    if not cell.real_program:
        env = cell.environment
        return counting.count(cell.argv, allocator, env=env, timeout=cell.timeout_s)
    with counting.children() as calls:
        outcome = bench.run(cell, allocator)
        return Counted(calls(), outcome.sample, outcome.failure)


def instructions(cell: Cell, allocator: Allocator) -> dict[str, Any]:
    """A record of kind `instructions`, of a workload."""
    counted = callgrind.count(
        cell.argv,
        allocator.library,
        dict(allocator.environment) | cell.environment,
        cell.timeout_s * _CALLGRIND_SLOWDOWN,
    )
    found = empty("instructions", cell, allocator, counted.failure)
    return found | {"instructions": counted.instructions}


def timeline(bench: Bench, cell: Cell, allocator: Allocator, folder: Path) -> dict[str, Any]:
    """A record of kind `timeline`; the file is in `folder`, named without it."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{len(list(folder.iterdir())) + 1}.timeline"
    outcome = bench.run(replace(cell, argv=(*cell.argv, "--timeline", str(file))), allocator)
    found = empty("timeline", cell, allocator, outcome.failure)
    if outcome.failure is None and not file.is_file():
        found["failure"] = "no timeline was written"
    return found | {"file": file.name, "result": outcome.result}
