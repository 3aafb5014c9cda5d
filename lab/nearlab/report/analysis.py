"""What a record says: ratios with intervals, who may be ranked, the ranks, wins and losses.

Invariant: a comparison of several allocators is over cells that all of them completed, with enough
runs, in programs that are sensitive to malloc; who completed too few is named, not averaged. Ranks
are by intervals: an allocator is behind those whose whole interval is better than its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import stats
from ..record import FEWEST_RUNS, Record, RecordError

RESAMPLES = 1000
TIME, MEMORY = "time", "memory_kib"
_TAKES_PART = 0.8  # of the cells an allocator must have completed to be in the means
_LEAST_COMMON = 0.5  # of the cells that the means should cover


@dataclass(frozen=True, slots=True)
class Duel:
    """The subject in one cell, against the best of the others there."""

    cell: str
    rival: str
    ratio: stats.Interval  # subject / rival


@dataclass(frozen=True, slots=True)
class Standing:
    """One allocator over all common cells, relative to the baseline."""

    allocator: str
    time: stats.Interval
    memory: stats.Interval
    time_rank: int | None
    memory_rank: int | None


class Analysis:
    """One record seen from one subject. Ratios are kept: they are expensive."""

    def __init__(self, record: Record, subject: str | None = None):
        self.record = record
        self.shown = [a.name for a in record.allocators if self._completed_any(a.name)]
        if not self.shown:
            raise RecordError(f"{record.path}: no allocator completed any cell")
        if subject is not None and subject not in self.shown:
            known = ", ".join(self.shown)
            raise RecordError(f"no results of allocator '{subject}'; there are: {known}")
        named = "nearmalloc" if "nearmalloc" in self.shown else None
        self.subject = subject or named
        self.base = "glibc" if "glibc" in self.shown else self.shown[0]
        self._ratios: dict[tuple, stats.Interval | None] = {}

    def _completed_any(self, allocator: str) -> bool:
        return any(self.record.problem(c.name, allocator) is None for c in self.record.cells)

    def value(self, cell: str, allocator: str, metric: str) -> stats.Interval | None:
        """The median of the runs, with its interval."""
        values = list(self.record.series(cell, allocator, metric).values())
        return self._interval((cell, allocator, metric), values, [1.0] * len(values))

    def ratio(
        self, cell: str, above: str, below: str, metric: str, *, below_metric: str | None = None
    ) -> stats.Interval | None:
        metrics = metric, below_metric or metric
        key = (cell, above, below, *metrics)
        if key in self._ratios:
            return self._ratios[key]
        return self._interval(key, *self.record.paired(cell, above, below, metrics))

    def _interval(
        self, key: tuple, above: list[float], below: list[float]
    ) -> stats.Interval | None:
        if key not in self._ratios:
            usable = above and min(above + below) > 0
            found = stats.ratio(above, below, resamples=RESAMPLES) if usable else None
            if found is None and above and above == [0.0] * len(above):
                found = stats.Interval(0.0, 0.0, 0.0)  # a count of nothing, in every run
            self._ratios[key] = found
        return self._ratios[key]

    @cached_property
    def ranked(self) -> bool:
        """There are enough runs to rank by."""
        return any(self._runs(cell.name, self.base) >= FEWEST_RUNS for cell in self.record.cells)

    def _runs(self, cell: str, allocator: str) -> int:
        return len(self.record.series(cell, allocator, TIME))

    @cached_property
    def usable(self) -> list[str]:
        """The cells that may be summed up: the baseline completed them and malloc matters."""
        least = FEWEST_RUNS if self.ranked else 1
        return [
            cell.name
            for cell in self.record.cells
            if self._runs(cell.name, self.base) >= least and not self.record.insensitive(cell.name)
        ]

    def completed(self, allocator: str, cells: Iterable[str], base: str | None = None) -> set[str]:
        """The cells for which both ratios to the baseline are known, from enough runs."""
        least = FEWEST_RUNS if self.ranked else 1
        return {
            cell
            for cell in cells
            if all(
                len(above) >= least and min(above + below) > 0
                for above, below in (
                    self.record.paired(cell, allocator, base or self.base, (metric, metric))
                    for metric in (TIME, MEMORY)
                )
            )
        }

    @cached_property
    def _parts(self) -> tuple[list[str], list[str]]:
        done = {name: self.completed(name, self.usable) for name in self.shown}
        kept = [
            name
            for name in self.shown
            # The limit frames the others; it must not cost a cell that they all completed.
            if len(done[name]) >= (1 if name == "limit" else _TAKES_PART) * max(1, len(self.usable))
        ]
        while True:
            common = set(self.usable).intersection(*(done[name] for name in kept))
            droppable = [name for name in kept if name not in (self.subject, self.base)]
            if len(common) >= _LEAST_COMMON * len(self.usable) or not droppable:
                return kept, [cell for cell in self.usable if cell in common]
            kept.remove(min(droppable, key=lambda name: len(done[name])))

    @property
    def compared(self) -> list[str]:
        """The allocators that completed enough to be compared over the common cells."""
        return self._parts[0]

    @property
    def common(self) -> list[str]:
        """The cells that all of `compared` completed."""
        return self._parts[1]

    def left_out(self) -> list[str]:
        """Who is not among the compared, and why."""
        names = [name for name in self.shown if name not in self.compared]
        done = {name: len(self.completed(name, self.usable)) for name in names}
        return [f"{name} (completed {done[name]} of {len(self.usable)})" for name in names]

    def mean(
        self, allocator: str, metric: str, cells: Sequence[str], base: str | None = None
    ) -> stats.Interval | None:
        """The geometric mean of the ratios to the baseline over the cells."""
        key = (tuple(cells), allocator, base or self.base, metric)
        if key not in self._ratios:
            pair = metric, metric
            rows = [self.record.paired(c, allocator, base or self.base, pair) for c in cells]
            usable = rows and all(above and min(above + below) > 0 for above, below in rows)
            self._ratios[key] = (
                stats.geometric_mean_of_ratios(rows, resamples=RESAMPLES) if usable else None
            )
        return self._ratios[key]

    @cached_property
    def standings(self) -> list[Standing]:
        """The compared allocators, least time first; without ranks when there are too few runs.
        The limit is no allocator to be beaten and has no rank."""
        time, memory = ({n: self.mean(n, m, self.common) for n in self.compared} for m in _BOTH)
        names = [n for n in self.compared if time[n] is not None and memory[n] is not None]
        order = sorted(names, key=lambda name: time[name].value)
        return [
            Standing(
                n, time[n], memory[n], self._rank(n, time, names), self._rank(n, memory, names)
            )
            for n in order
        ]

    def _rank(self, name: str, means: dict[str, stats.Interval], names: list[str]) -> int | None:
        if not self.ranked or name == "limit":
            return None
        better = [n for n in names if n != "limit" and means[n].high < means[name].low]
        return 1 + len(better)

    def duels(self, metric: str) -> list[Duel]:
        """The subject against the best other in every usable cell that it completed."""
        found = []
        for cell in self.usable:
            medians = {
                name: self.record.series(cell, name, metric)
                for name in self.shown
                if name not in ("limit", self.subject)
            }
            best = min(
                (name for name, values in medians.items() if values),
                key=lambda name: stats.median(list(medians[name].values())),
                default=None,
            )
            ratio = self.ratio(cell, self.subject, best, metric) if best and self.subject else None
            if best and ratio:
                found.append(Duel(cell, best, ratio))
        return found

    def groups(self, cells: Iterable[str]) -> dict[str, list[str]]:
        """The cells by their group, in the plan's order."""
        found: dict[str, list[str]] = {}
        for cell in cells:
            found.setdefault(self.record.cell_by_name[cell].group or "all", []).append(cell)
        return found


_BOTH = (TIME, MEMORY)
