"""The points of a sweep: at each, one number of the subject beside the best of its peers.

A point is a cell and one metric: time, the heap at its peak, the heap after freeing and a rest.
Invariant: a peer that was not measured in a cell is no peer there; a subject that failed makes a
point without a ratio, which reaches no target and is never best.
"""

from dataclasses import dataclass
from typing import Literal

from nearlab.results import stats
from nearlab.results.record import EMPTY_HEAP_KIB, LIMIT, SMALL_HEAP_KIB, Cell, Record
from nearlab.results.stats import Interval

Kind = Literal["time", "memory", "rest"]
METRICS: dict[Kind, str] = {
    "time": "time",
    "memory": "heap_peak_kib",
    "rest": "heap_rested_kib",
}
_RESAMPLES = 2000  # of a point's interval: there are hundreds of points


@dataclass(frozen=True, slots=True)
class Point:
    """One metric of one cell. `ratio` is subject / best peer; None if the subject has no number."""

    cell: Cell
    kind: Kind
    peer: str  # the best one
    ratio: Interval | None
    medians: dict[str, float]  # by allocator, the subject included
    problem: str = ""  # why there is no ratio

    @property
    def curve(self) -> str:
        return self.cell.workload

    @property
    def is_small(self) -> bool:
        """True if it is memory and a heap of at most 4 MiB was enough: nobody is judged there."""
        return self.kind != "time" and self.medians[self.peer] < SMALL_HEAP_KIB

    @property
    def is_best(self) -> bool:
        return self.ratio is not None and self.ratio.value <= 1

    def at_most(self, factor: float) -> bool:
        """Whether the lower edge of the interval is within the factor; the value if there is no
        interval."""
        if self.ratio is None:
            return False
        return (self.ratio.low if self.ratio.known else self.ratio.value) <= factor


def values(
    record: Record, cell: str, allocator: str, kind: Kind, *, all_runs: bool = False
) -> dict[int, float]:
    """The numbers by round. A heap below 256 KiB counts as that: it fits in what a process has.
    With `all_runs` also those of runs that other work disturbed."""
    found = record.series(cell, allocator, METRICS[kind], all_runs=all_runs)
    if kind == "time":
        return {number: value for number, value in found.items() if value > 0}
    return {number: max(value, EMPTY_HEAP_KIB) for number, value in found.items()}


def paired(
    record: Record, cell: str, above: str, below: str, kind: Kind
) -> tuple[list[float], list[float]]:
    """The numbers of two allocators over the rounds that both have."""
    pair: tuple[list[float], list[float]] = ([], [])
    for all_runs in (False, True):
        first, second = (
            values(record, cell, name, kind, all_runs=all_runs) for name in (above, below)
        )
        rounds = sorted(first.keys() & second.keys())
        pair = [first[number] for number in rounds], [second[number] for number in rounds]
        if len(rounds) >= stats.FEWEST_RUNS:  # else the two were calm in different rounds
            break
    return pair


def peers_of(record: Record, subject: str) -> list[str]:
    """The allocators that the subject is compared with."""
    return [one.name for one in record.allocators if one.name not in (subject, LIMIT)]


def points(record: Record, subject: str, kind: Kind) -> list[Point]:
    """The points of all cells in which a peer has this number, in the plan's order."""
    found = (point(record, cell, subject, kind) for cell in record.cells)
    return [one for one in found if one is not None]


def point(record: Record, cell: Cell, subject: str, kind: Kind) -> Point | None:
    """The point of a cell; None if no peer has this number."""
    series = {
        name: values(record, cell.name, name, kind)
        for name in (subject, *peers_of(record, subject))
    }
    medians = {name: stats.median(list(of.values())) for name, of in series.items() if of}
    peers = [name for name in medians if name != subject]
    if not peers:
        return None
    best = min(peers, key=lambda name: medians[name])
    ours, theirs = paired(record, cell.name, subject, best, kind)
    if not ours:
        reason = record.problem(cell.name, subject) or f"no {METRICS[kind]}"
        return Point(cell, kind, best, None, medians, reason)
    return Point(cell, kind, best, stats.ratio(ours, theirs, resamples=_RESAMPLES), medians)
