"""Analyses a record: ratios with intervals, which allocators are ranked, ranks, wins and losses.

Published workloads, real programs and the lab's own rows are three groups: no mean is over two.

Invariant: a comparison of several allocators is over cells that all of them completed, with enough
runs, for time in programs that are sensitive to malloc; one that completed too few is named, not
averaged. Ranks are by intervals: an allocator is behind those whose whole interval is better than
its own. The limit has no memory: each of its threads has a buffer of a size that the plan chose.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from nearlab.results import stats
from nearlab.results.record import LIMIT, ORIGINS, SMALL_HEAP_KIB, Record, RecordError
from nearlab.results.stats import FEWEST_RUNS

RESAMPLES = 1000
TIME, MEMORY = "time", "heap_kib"
_TAKES_PART = 0.8  # the share of cells that an allocator must complete to be in the means
_LEAST_COMMON = 0.5  # the share of cells that the means should cover


def is_memory(metric: str) -> bool:
    return metric.endswith("_kib")


def meaningless(allocator: str, metric: str) -> bool:
    return allocator == LIMIT and is_memory(metric)


@dataclass(frozen=True, slots=True)
class Duel:
    """The subject in one cell, against the best of the others there."""

    cell: str
    rival: str
    ratio: stats.Interval  # subject / rival


@dataclass(frozen=True, slots=True)
class Standing:
    """One allocator over the common cells of a group, relative to the baseline; the limit has no
    memory. The intervals `..._rows` also cover the choice of rows."""

    allocator: str
    time: stats.Interval | None
    memory: stats.Interval | None
    time_rank: int | None
    memory_rank: int | None
    time_rows: stats.Interval | None
    memory_rows: stats.Interval | None


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
        self.subject = subject or record.own_subject()
        others = [name for name in self.shown if name != LIMIT] or self.shown
        self.base = "glibc" if "glibc" in others else others[0]
        self._ratios: dict[tuple[object, ...], stats.Interval | None] = {}

    def _completed_any(self, allocator: str) -> bool:
        return any(self.record.problem(c.name, allocator) is None for c in self.record.cells)

    def value(self, cell: str, allocator: str, metric: str) -> stats.Interval | None:
        """The median of the runs, with its interval."""
        if meaningless(allocator, metric):
            return None
        values = list(self.record.series(cell, allocator, metric).values())
        return self._interval((cell, allocator, metric), values, [1.0] * len(values))

    def ratio(
        self, cell: str, above: str, below: str, metric: str, *, below_metric: str | None = None
    ) -> stats.Interval | None:
        if meaningless(above, metric) or meaningless(below, metric):
            return None
        metrics = metric, below_metric or metric
        key = (cell, above, below, *metrics)
        if key in self._ratios:
            return self._ratios[key]
        return self._interval(key, *self.record.paired(cell, above, below, metrics))

    def gain(
        self, cell: str, other: str, allocator: str, metric: str, *, base: str | None = None
    ) -> stats.Interval | None:
        """The cell's number over that of another cell under the same allocator, or under another
        one, by rounds."""
        below_name = base or allocator
        if meaningless(allocator, metric) or meaningless(below_name, metric):
            return None
        above = self.record.series(cell, allocator, metric)
        below = self.record.series(other, below_name, metric)
        rounds = sorted(above.keys() & below.keys())
        pair = [above[number] for number in rounds], [below[number] for number in rounds]
        return self._interval((cell, other, allocator, below_name, metric, "gain"), *pair)

    def _interval(
        self, key: tuple[object, ...], above: list[float], below: list[float]
    ) -> stats.Interval | None:
        if key not in self._ratios:
            usable = above and min(above + below) > 0
            found = stats.ratio(above, below, resamples=RESAMPLES) if usable else None
            if found is None and above and above == [0.0] * len(above):  # zero in every run
                found = stats.Interval(0.0, 0.0, 0.0 if len(above) >= FEWEST_RUNS else math.inf)
            self._ratios[key] = found
        return self._ratios[key]

    @cached_property
    def ranked(self) -> bool:
        """True if there are enough runs for ranks."""
        return any(self._runs(cell.name, self.base) >= FEWEST_RUNS for cell in self.record.cells)

    def _runs(self, cell: str, allocator: str) -> int:
        return len(self.record.series(cell, allocator, TIME))

    @property
    def _least(self) -> int:
        return FEWEST_RUNS if self.ranked else 1

    @cached_property
    def _measured(self) -> list[str]:
        """The cells that the baseline completed."""
        return [c.name for c in self.record.cells if self._runs(c.name, self.base) >= self._least]

    def usable(self, metric: str) -> list[str]:
        """Returns the cells that count. The baseline completed them; for time malloc takes a share
        of it, and the harness at most half of its instructions; for memory the heap is not small.
        """
        if metric == MEMORY:
            return [cell for cell in self._measured if not self.small(cell)]
        if is_memory(metric):
            return self._measured
        silent = self.record.insensitive, self.record.harness
        return [cell for cell in self._measured if not any(of(cell) for of in silent)]

    def small(self, cell: str) -> bool:
        """True if the heap is so small that its ratios are those of constants. An earlier version
        did not measure the empty process: then no heap is known to be."""
        heap = self.value(cell, self.base, MEMORY)
        return bool(self.record.empty_kib) and heap is not None and heap.value < SMALL_HEAP_KIB

    def completed(self, allocator: str, cells: Iterable[str], base: str | None = None) -> set[str]:
        """The cells for which both ratios to the baseline are known, from enough runs."""
        return {
            cell
            for cell in cells
            if all(
                len(above) >= self._least and min(above + below) > 0
                for above, below in (
                    self.record.paired(cell, allocator, base or self.base, (metric, metric))
                    for metric in (TIME, MEMORY)
                )
            )
        }

    @cached_property
    def _parts(self) -> tuple[list[str], list[str]]:
        cells = self._measured
        done = {name: self.completed(name, cells) for name in self.shown}
        kept = [
            name
            for name in self.shown
            # The limit is a bound; a cell that it did not complete still counts for the others.
            if len(done[name]) >= (1 if name == LIMIT else _TAKES_PART) * max(1, len(cells))
        ]
        while True:
            common = set(cells).intersection(*(done[name] for name in kept))
            droppable = [name for name in kept if name not in (self.subject, self.base)]
            if len(common) >= _LEAST_COMMON * len(cells) or not droppable:
                return kept, [cell for cell in cells if cell in common]
            kept.remove(min(droppable, key=lambda name: len(done[name])))

    @property
    def compared(self) -> list[str]:
        """The allocators that completed enough to be compared over the common cells."""
        return self._parts[0]

    def common(self, metric: str, origin: str | None = None) -> list[str]:
        """The usable cells that all of `compared` completed; of one group if it is named."""
        return [
            cell
            for cell in self.usable(metric)
            if cell in self._parts[1] and origin in (None, self.record.cell_by_name[cell].origin)
        ]

    @cached_property
    def origins(self) -> list[str]:
        """The groups that have cells in common."""
        return [one for one in ORIGINS if self.common(TIME, one) or self.common(MEMORY, one)]

    def told(self, cells: Sequence[str]) -> str:
        """Returns, in words, how many cells there are, and how many oversubscribed or tuned."""
        found = [self.record.cell_by_name[cell] for cell in cells]
        marks = {
            "oversubscribed": sum(cell.oversubscribed for cell in found),
            "used for tuning": sum(cell.tuned for cell in found),
        }
        told = [f"{count} of {len(cells)} {mark}" for mark, count in marks.items() if count]
        count = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
        return f"{count} ({', '.join(told)})" if told else count

    def left_out(self) -> list[str]:
        """The allocators that are not compared, and the reasons."""
        names = [name for name in self.shown if name not in self.compared]
        return [f"{name} ({self.completion(name)})" for name in names]

    def completion(self, allocator: str) -> str:
        cells = self._measured
        return f"completed {len(self.completed(allocator, cells))} of {len(cells)}"

    def mean(
        self, allocator: str, metric: str, cells: Sequence[str], base: str | None = None
    ) -> stats.Interval | None:
        """The geometric mean of the ratios to the baseline over the cells."""
        key = (tuple(cells), allocator, base or self.base, metric)
        if key not in self._ratios:
            rows = self._rows(allocator, metric, cells, base)
            self._ratios[key] = (
                stats.geometric_mean_of_ratios(rows, resamples=RESAMPLES) if rows else None
            )
        return self._ratios[key]

    def _rows(
        self, allocator: str, metric: str, cells: Sequence[str], base: str | None = None
    ) -> list[tuple[list[float], list[float]]]:
        """The runs of both in each cell; none if one of the cells has no ratio."""
        if meaningless(allocator, metric) or meaningless(base or self.base, metric):
            return []
        pair = metric, metric
        rows = [self.record.paired(c, allocator, base or self.base, pair) for c in cells]
        return rows if all(above and min(above + below) > 0 for above, below in rows) else []

    def without_one(
        self, allocator: str, metric: str, cells: Sequence[str], base: str | None = None
    ) -> stats.LeaveOneOut | None:
        """How far the mean over the cells depends on single ones."""
        rows = self._rows(allocator, metric, cells, base)
        ratios = [stats.median(above) / stats.median(below) for above, below in rows]
        return stats.leave_one_out(dict(zip(cells, ratios, strict=True))) if ratios else None

    @cached_property
    def _standings(self) -> dict[str, list[Standing]]:
        return {origin: self._standings_of(origin) for origin in self.origins}

    def standings(self, origin: str) -> list[Standing]:
        """Returns the compared allocators in a group, least time first; without ranks if there are
        too few runs. The limit is a bound and has no rank."""
        return self._standings[origin]

    def _standings_of(self, origin: str) -> list[Standing]:
        time, memory = (self._means(metric, origin) for metric in (TIME, MEMORY))
        wide = [self._means(metric, origin, stats.over_rows) for metric in (TIME, MEMORY)]
        # A group may have no cell in common whose time, or whose memory, counts.
        names = [n for n in self.compared if n in time or (n in memory and not time)]
        names = [n for n in names if n in memory or n == LIMIT or not memory]
        order = sorted(names, key=lambda name: (time.get(name) or memory[name]).value)
        return [
            Standing(
                n,
                time.get(n),
                memory.get(n),
                self._rank(n, time, names),
                self._rank(n, memory, names),
                wide[0].get(n),
                wide[1].get(n),
            )
            for n in order
        ]

    def _means(
        self,
        metric: str,
        origin: str,
        mean: Callable[..., stats.Interval] = stats.geometric_mean_of_ratios,
    ) -> dict[str, stats.Interval]:
        """Returns the means of the compared allocators that have one."""
        cells = self.common(metric, origin)
        rows = {name: self._rows(name, metric, cells) for name in self.compared}
        return {name: mean(one, resamples=RESAMPLES) for name, one in rows.items() if one}

    def _rank(self, name: str, means: dict[str, stats.Interval], names: list[str]) -> int | None:
        if not self.ranked or name == LIMIT or name not in means:
            return None
        better = [n for n in names if n != LIMIT and n in means and means[n].high < means[name].low]
        return 1 + len(better)

    def duels(self, metric: str) -> list[Duel]:
        """Returns the subject against the best other allocator in every usable cell with enough
        runs."""
        subject = self.subject
        if subject is None:
            return []
        found = []
        for cell in self.usable(metric):
            values = {
                name: list(self.record.series(cell, name, metric).values())
                for name in self.shown
                if name != LIMIT
            }
            enough = {name: runs for name, runs in values.items() if len(runs) >= self._least}
            if enough.pop(subject, None) and enough:
                best = min(enough, key=lambda name: stats.median(enough[name]))
                ratio = self.ratio(cell, subject, best, metric)
                if ratio:
                    found.append(Duel(cell, best, ratio))
        return found

    def groups(self, cells: Iterable[str]) -> dict[str, list[str]]:
        """The cells by their group, in the plan's order."""
        found: dict[str, list[str]] = {}
        for cell in cells:
            found.setdefault(self.record.cell_by_name[cell].group or "all", []).append(cell)
        return found
