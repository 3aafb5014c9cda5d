"""The cells of a plan: one for each workload, number of threads and value of the swept option.

Invariant: a cell's name is unique in its plan and holds everything that distinguishes the cell:
`threadtest 64 B t=2`, `sizes size=64`.
"""

import functools
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from nearlab import places
from nearlab.plan import chosen, workloads
from nearlab.plan.plan import Plan, PlanError, Timeline, Value, Workload

LIMIT = "limit"  # the allocator that is a bound; not every workload can run under it


@dataclass(frozen=True, slots=True)
class Cell:
    """One program with its arguments, run in each round under each allocator."""

    name: str
    workload: str
    program: str
    real_program: str | None
    threads: int | None
    x: dict[str, int | float | str]
    group: str
    argv: tuple[str, ...]  # empty for a real program: its class makes the command
    rounds: int
    timeout_s: float
    limit_mib: int | None
    missing: str | None = None  # why it cannot be run here
    threads_each: int = 1
    origin: str = "own"
    tuned: bool = False
    huge_pages: str | None = None  # its processes' setting; None: the machine's
    allocators: tuple[str, ...] = ()  # it runs under these; empty: all except `foreign`
    foreign: tuple[str, ...] = ()  # allocators that only other cells of the plan name

    def takes(self, allocator: str) -> bool:
        """Whether the cell runs under `allocator`; False for `limit` where it makes no sense."""
        if self.allocators:
            return allocator in self.allocators
        return allocator not in self.foreign and (allocator != LIMIT or self.limit_mib != 0)

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.limit_mib is None else {"LIMIT_MIB": str(self.limit_mib)}

    @property
    def running(self) -> int:
        """How many threads it has, as far as the plan says."""
        return (self.threads or 1) * self.threads_each

    @property
    def oversubscribed(self) -> bool:
        """True if there are more threads than processors: the times then include the scheduler."""
        return self.running > len(os.sched_getaffinity(0))

    def to_json(self) -> dict[str, Any]:
        return {
            "cell": self.name,
            "workload": self.workload,
            "program": self.program,
            "threads": self.threads,
            "x": self.x,
            "group": self.group,
            "origin": self.origin,
            "tuned": self.tuned,
            "argv": list(self.argv),
            "rounds": self.rounds,
            "limit_mib": self.limit_mib,
            "oversubscribed": self.oversubscribed,
            "missing": self.missing,
        }


def of_plan(plan: Plan, rounds: int | None = None) -> list[Cell]:
    """Returns all cells in order; `rounds` overrides the rounds of the plan and of its workloads.
    """
    cells = [cell for workload in plan.rows for cell in _of_workload(plan, workload)]
    seen = set()
    for cell in cells:
        if cell.name in seen:
            raise PlanError(f"{plan.name}: two cells are called {cell.name!r}")
        seen.add(cell.name)
    for timeline in plan.keys.timeline:
        _check_timeline(plan, timeline, cells)
    return cells if rounds is None else [replace(cell, rounds=rounds) for cell in cells]


def _check_timeline(plan: Plan, timeline: Timeline, cells: list[Cell]) -> None:
    cell = next((cell for cell in cells if cell.name == timeline.cell), None)
    if cell is None:
        problem = f"no cell is called {timeline.cell!r}"
    elif cell.real_program or "timeline" not in workloads.options(cell.program):
        problem = f"{cell.program} records none"
    else:
        return
    raise PlanError(f"{plan.name}: timeline {timeline.name}: {problem}")


def recorded(plan: Plan, cell: Cell, allocator: str) -> bool:
    """Whether the plan wants a timeline of the cell under the allocator."""
    return any(
        timeline.cell == cell.name and (not timeline.allocators or allocator in timeline.allocators)
        for timeline in plan.keys.timeline
    )


def _of_workload(plan: Plan, workload: Workload) -> Iterator[Cell]:
    everywhere = {chosen.name_of(one) for one in plan.everywhere}
    numbers: list[int | None] = [*workload.threads]
    swept: list[tuple[str, int | float | str] | None] = [
        (name, value) for name, values in workload.sweep.items() for value in values
    ]
    pages: list[str | None] = [*(workload.huge_pages or plan.keys.huge_pages)]
    for threads, point, huge in product(numbers or [None], swept or [None], pages or [None]):
        x = {} if point is None else dict([point])
        marks = [f"t={threads}"] if threads else []
        marks += [f"{name}={value}" for name, value in x.items()]
        marks += [f"huge_pages={huge}"] if huge else []
        yield Cell(
            name=" ".join([workload.label, *marks]),
            workload=workload.label,
            program=workload.program,
            real_program=workload.real_program,
            threads=threads or _threads_option(workload),
            threads_each=workload.threads_each,
            x=x | ({"huge_pages": huge} if huge else {}),
            huge_pages=huge,
            group=workload.group,
            origin=_origin(plan, workload),
            tuned=workload.tuned,
            argv=() if workload.real_program else _argv(plan, workload, threads, x),
            rounds=workload.rounds or plan.keys.rounds,
            timeout_s=workload.timeout_s or plan.keys.timeout_s,
            limit_mib=workload.limit_mib,
            allocators=tuple(map(chosen.name_of, workload.allocators)),
            foreign=tuple({chosen.name_of(one) for one in plan.allocators} - everywhere),
        )


def _origin(plan: Plan, workload: Workload) -> str:
    default = "published" if workload.program in _published() else "own"
    return workload.origin or ("program" if workload.real_program else plan.keys.origin or default)


@functools.cache
def _published() -> frozenset[str]:
    """The workloads that others published, as the plan `quick` marks them."""
    quick = tomllib.loads((places.plans_dir() / "quick.toml").read_text(encoding="utf-8"))
    return frozenset(
        one["program"] for one in quick["workload"] if one.get("origin") == "published"
    )


def _threads_option(workload: Workload) -> int | None:
    threads = workload.options.get("threads")
    return threads if isinstance(threads, int) else None


def _argv(
    plan: Plan, workload: Workload, threads: int | None, x: dict[str, int | float | str]
) -> tuple[str, ...]:
    options = workload.options | x | ({"threads": threads} if threads else {})
    words = [str(workloads.path(workload.program)), "--preset", plan.keys.preset]
    for name, value in options.items():
        words += _words(name, value)
    return tuple(words)


def _words(name: str, value: Value) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    return [f"--{name}", str(value)]
