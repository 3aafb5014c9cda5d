"""Judges goals: from the numbers of runs to a table of what is reached, and what is waited for
where it is not.

Invariant: every function here is pure; a goal without a number is not reached.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["linear", "peers", "times", "waiting", "transfers", "kept", "idle"]
_THROUGHPUT = ("linear", "peers", "times")  # more is better
_MEAN = "geometric mean"


class Goal(BaseModel):
    """One `[[goal]]` of manycore/goals.toml, which says what the kinds mean."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    kind: Kind
    workloads: Annotated[list[str], Field(min_length=1)]
    at: Annotated[list[Annotated[str, Field(pattern=r"^[^/]+/[1-9][0-9]*$")]], Field(min_length=1)]
    peers: list[str] | None = None  # instead of all others
    today: dict[str, float] = {}  # Mop/s of each workload
    least: float | None = None
    most: float | None = None
    far: bool = False

    def points(self) -> list["Point"]:
        return [Point.of(workload, text) for text in self.at for workload in self.workloads]


@dataclass(frozen=True, slots=True)
class Point:
    workload: str
    machine: str
    processors: int

    @classmethod
    def of(cls, workload: str, text: str) -> "Point":
        machine, _, number = text.partition("/")
        return cls(workload, machine, int(number))


@dataclass(frozen=True, slots=True)
class Numbers:
    """What goals need of one run."""

    mops: float
    transfers: float = 0  # to the allocator's code, for each operation
    far: float = 0  # far transfers and reads of far memory, for each operation
    line_share: float = 0  # of the line or lock that the allocator waits for most
    line: str = ""
    kept_kib: float = 0  # for each processor
    idle_kib: float = math.nan  # nan: the workload does not say
    cause: str = ""  # the line, lock or call that is waited for most, and its share


Runs = Mapping[tuple[str, Point], Numbers]  # by allocator and point


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the processors of a machine are: the first threads of its cores come first."""

    cores: int
    threads: int  # of a core: 1 or 2

    def full(self, processors: int) -> int:
        """How many cores have all their threads busy, of a number of processors."""
        return max(0, processors - self.cores * (self.threads - 1))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    goal: Goal
    point: Point
    value: float | None
    best: tuple[str, float] | None  # the best peer
    share: float | None  # what is judged
    reached: bool
    cause: str = ""
    far: tuple[float, float | None] | None = None  # of the judged one and of the best peer


def core_name(machine: str) -> str:
    """The machine of one core, with all its threads."""
    return f"{machine}-core"


def bases(point: Point, cores: Cores) -> list[Point]:
    """The runs from which linear throughput follows: one thread alone, one core with all."""
    alone = Point(point.workload, point.machine, 1)
    together = Point(point.workload, core_name(point.machine), cores.threads)
    full = cores.full(point.processors)
    return [base for base, wanted in ((alone, full < cores.cores), (together, full)) if wanted]


def linear(runs: Runs, allocator: str, point: Point, cores: Cores) -> float | None:
    """The throughput of as many cores that share nothing: those with one busy thread, and those
    with all of them busy, which slow each other."""
    full = cores.full(point.processors)
    alone = min(point.processors, cores.cores) - full
    counts = {1: alone, cores.threads: full} if cores.threads > 1 else {1: point.processors}
    total = 0.0
    for base in bases(point, cores):
        run = runs.get((allocator, base))
        if run is None:
            return None
        total += counts[base.processors] * run.mops
    return total


def best_of(values: Mapping[str, float | None], more: bool = True) -> tuple[str, float] | None:
    """The name with the largest number, or the smallest if less is better; None without numbers."""
    known = {
        name: value for name, value in values.items() if value is not None and not math.isnan(value)
    }
    if not known:
        return None
    name = (max if more else min)(known, key=lambda name: known[name])
    return name, known[name]


def is_reached(goal: Goal, share: float | None) -> bool:
    """At least `least`, or at most `most`. A share that is not a number reaches nothing."""
    if share is None or math.isnan(share):
        return False
    return (goal.least is None or share >= goal.least) and (goal.most is None or share <= goal.most)


def peers_of(goal: Goal, allocators: Sequence[str]) -> list[str]:
    return [name for name in allocators[1:] if goal.peers is None or name in goal.peers]


def number(goal: Goal, allocator: str, point: Point, runs: Runs, cores: Cores) -> float | None:
    """What the goal's kind of number is for an allocator; None if a run is missing."""
    run = runs.get((allocator, point))
    if run is None:
        return None
    if goal.kind == "linear":
        straight = linear(runs, allocator, point, cores)
        return run.mops / straight if straight else None
    numbers = {
        "waiting": run.line_share,
        "transfers": run.transfers,
        "kept": run.kept_kib,
        "idle": run.idle_kib,
    }
    return numbers.get(goal.kind, run.mops)


def judge_point(
    goal: Goal, point: Point, runs: Runs, allocators: Sequence[str], cores: Cores
) -> Row:
    """The row of a goal at a point; the first allocator is judged, the others are its peers."""
    value = number(goal, allocators[0], point, runs, cores)
    others = {name: number(goal, name, point, runs, cores) for name in peers_of(goal, allocators)}
    best = best_of(others, more=goal.most is None)
    share = value
    if goal.kind == "peers":
        share = value / best[1] if value and best else None
    elif goal.kind == "times":
        share = value / goal.today[point.workload] if value else None
    row = Row(goal, point, value, best, share, is_reached(goal, share))
    own = runs.get((allocators[0], point))
    other = runs.get((best[0], point)) if best else None
    if own and goal.far:
        row = replace(row, far=(own.far, other.far if other else None))
    if own and not row.reached:
        row = replace(row, cause=own.line if goal.kind == "waiting" else own.cause)
    return row


def mean_row(
    goal: Goal, text: str, rows: Sequence[Row], runs: Runs, allocators: Sequence[str]
) -> Row:
    """The geometric mean over the workloads of a group: each peer's own mean counts."""
    point = Point.of(_MEAN, text)
    value = _mean([row.value for row in rows])
    if goal.kind != "peers":
        share = _mean([row.share for row in rows])
        return Row(goal, point, value, None, share, is_reached(goal, share))
    means: dict[str, float | None] = {}
    for name in peers_of(goal, allocators):
        found = [runs.get((name, row.point)) for row in rows]
        means[name] = _mean([run.mops if run else None for run in found])
    best = best_of(means)
    share = value / best[1] if value and best else None
    return Row(goal, point, value, best, share, is_reached(goal, share))


def _mean(values: Sequence[float | None]) -> float | None:
    """None if one is missing: the others alone would be another group."""
    known = [value for value in values if value]
    return geometric_mean(known) if len(known) == len(values) else None


def judge(
    goals: Iterable[Goal],
    runs: Runs,
    allocators: Sequence[str],
    cores_of: Callable[[str], Cores],
) -> list[Row]:
    """The rows of all goals; a group of workloads has a row for its mean at each point."""
    table = []
    for goal in goals:
        for text in goal.at:
            points = [Point.of(workload, text) for workload in goal.workloads]
            cores = cores_of(points[0].machine)
            rows = [judge_point(goal, point, runs, allocators, cores) for point in points]
            table += rows
            if len(rows) > 1 and goal.kind in _THROUGHPUT:
                table.append(mean_row(goal, text, rows, runs, allocators))
    return table
