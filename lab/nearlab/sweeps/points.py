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


def values(record: Record, cell: str, allocator: str, kind: Kind) -> dict[int, float]:
    """The numbers by round."""
    found = record.series(cell, allocator, METRICS[kind])
    return {number: _known(kind, one) for number, one in found.items() if _counts(kind, one)}


def _counts(kind: Kind, value: float) -> bool:
    return kind != "time" or value > 0


def _known(kind: Kind, value: float) -> float:
    """A heap below 256 KiB counts as that: it fits in what a process has."""
    return value if kind == "time" else max(value, EMPTY_HEAP_KIB)


def paired(
    record: Record, cell: str, above: str, below: str, kind: Kind
) -> tuple[list[float], list[float]]:
    """The numbers of two allocators over the rounds that both have."""
    metric = METRICS[kind]
    pairs = zip(*record.paired_enough(cell, above, below, (metric, metric)), strict=True)
    known = [
        (_known(kind, one), _known(kind, other))
        for one, other in pairs
        if _counts(kind, one) and _counts(kind, other)
    ]
    return [one for one, _ in known], [other for _, other in known]


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
