"""Compares two sets of results, A before and B after: what got faster, slower, larger, smaller.

The rounds of A and of B share nothing, so each file is resampled on its own. But a machine is
rarely equally fast on two days, and the intervals of A and of B do not contain that difference. So
- time is compared by its ratio to a reference allocator that both files hold (glibc, same version):
  (B / B's reference) / (A / A's reference), paired by round within each file. A slowdown of a whole
  file affects both of its series and cancels. The cost is the reference's noise, which the interval
  includes. Without a reference the ratio is B / A, and a warning says so;
- memory and counts do not depend on the machine's speed, so they are always compared as B / A. A
  reference would only add its own noise;
- callgrind's instructions are one exact number and have no interval;
- the system calls of one counting run have no measured spread. If they differ, they are treated as
  Poisson counts, so a few more calls prove nothing; the threshold is wide.
Time is per operation where operations are counted, because some programs run for a fixed time.

Verdicts: with the threshold t, a change is certain when the whole 95 % interval lies above 1 + t
or below 1 / (1 + t). It is `same` when the whole interval lies between them, and `unclear` in all
other cases, with fewer than five rounds, and for the time of a program that hardly allocates.
Invariant: swapping A and B mirrors every verdict; one failed run invalidates its series; a failure
that only B has is a regression.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nearlab.compare.load import Measured
from nearlab.results import stats
from nearlab.results.record import INSENSITIVE, NOISY
from nearlab.results.stats import FEWEST_RUNS, Interval

SYSTEM_CALLS = ("mmap", "munmap", "madvise", "mremap", "mprotect", "brk")
_Z95 = 1.96
_RESAMPLES = 2_000  # for each of about a thousand rows; each tail still holds 50
_Sides = Sequence[dict[int, float]]  # of A and of B: values by round


class Way(Enum):
    """How a quantity is compared, and which threshold applies."""

    TIME = "time"
    MEMORY = "memory"
    INSTRUCTIONS = "instructions"
    CALLS = "calls"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A compared quantity: its name, its way, the words for less and more, its key in results."""

    name: str
    way: Way
    less: str
    more: str
    key: str


QUANTITIES = (
    Quantity("time", Way.TIME, "faster", "slower", "seconds"),
    Quantity("CPU time", Way.TIME, "faster", "slower", "cpu_s"),
    Quantity("peak memory", Way.MEMORY, "smaller", "larger", "memory_kib"),
    Quantity("mean memory", Way.MEMORY, "smaller", "larger", "mean_rss_kib"),
    Quantity("instructions", Way.INSTRUCTIONS, "fewer", "more", "instructions"),
    *(Quantity(f"{call} calls", Way.CALLS, "fewer", "more", call) for call in SYSTEM_CALLS),
)
FAILING = {"run": "runs", "count": "counting", "instructions": "callgrind"}


@dataclass(frozen=True, slots=True)
class Settings:
    """Which allocators are compared, and the thresholds from which a change matters."""

    thresholds: Mapping[Way, float]
    allocators: tuple[str, ...] = ()  # empty: the allocators that both files hold
    reference: str = "glibc"


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one cell and allocator. If there is no ratio, the note says why."""

    cell: str
    allocator: str
    quantity: Quantity | None  # None: the row says whether the program runs at all
    verdict: str
    change: int = 0  # -1 certainly better, 1 certainly worse
    before: float | None = None  # medians; multiples of the reference's if relative
    after: float | None = None
    ratio: Interval | None = None
    relative: bool = False
    importance: float = 0  # the change as a multiple of its threshold
    note: str = ""


def rows(before: Measured, after: Measured, settings: Settings) -> list[Row]:
    """All comparisons that both files allow, the most important first: certainly worse, certainly
    better, unclear, the same."""
    found: list[Row] = []
    for cell in shared_cells(before, after):
        for allocator in chosen(before, after, settings):
            pair = _Pair(before, after, cell, allocator, settings)
            found += [*pair.failures(), *pair.changes()]
    return sorted(found, key=_order)


def _order(row: Row) -> tuple[int, int, bool, float, str, str]:
    rank = (-abs(row.change), -row.change, row.verdict != "unclear", -row.importance)
    return (*rank, row.cell, row.allocator)


def shared_cells(before: Measured, after: Measured) -> list[str]:
    """The cells that both files hold and that do the same work in both."""
    return [c for c in before.cells if c in after.cells and before.work(c) == after.work(c)]


def chosen(before: Measured, after: Measured, settings: Settings) -> list[str]:
    """The allocators to compare. Raises ValueError if a requested one is not in both files."""
    was, now = before.allocators, after.allocators
    both = [name for name in was if name in now and not absent(was[name], now[name])]
    for name in settings.allocators:
        if name not in both:
            raise ValueError(f"allocator {name} is not in both; there are: {', '.join(both)}")
    return list(settings.allocators) or both


def absent(was: dict[str, Any], now: dict[str, Any]) -> bool:
    """True for a peer that was installed for one file alone: no change of this repository."""
    return now.get("group") != "ours" and bool(was.get("missing")) != bool(now.get("missing"))


def reference_of(before: Measured, after: Measured, settings: Settings) -> str | None:
    """The reference, if both files hold the same version of it."""
    versions = [
        file.allocators.get(settings.reference, {}).get("version") for file in (before, after)
    ]
    return settings.reference if versions[0] and versions[0] == versions[1] else None


def drift(before: Measured, after: Measured, reference: str) -> list[float]:
    """The reference's time in B / in A for every cell: the change in the machine's speed."""
    found = []
    for cell in shared_cells(before, after):
        sides = _times((before, after), cell, [reference], "seconds")[0]
        if all(len(side) >= FEWEST_RUNS and min(side.values()) > 0 for side in sides):
            medians = [stats.median(list(side.values())) for side in sides]
            found.append(medians[1] / medians[0])
    return found


class _Pair:
    """One cell and allocator, in A and in B."""

    def __init__(
        self, before: Measured, after: Measured, cell: str, allocator: str, settings: Settings
    ):
        self._files = (before, after)
        self._cell, self._allocator = cell, allocator
        self._thresholds = settings.thresholds
        self._reference = reference_of(before, after, settings)

    def failures(self) -> Iterator[Row]:
        before, after = self._files
        place = self._cell, self._allocator
        for kind, name in FAILING.items():
            # B may leave out the counting, but not the runs.
            if not before.tried(kind, *place) or not (kind == "run" or after.tried(kind, *place)):
                continue
            was, now = before.failure(kind, *place), after.failure(kind, *place)
            if now and not was:
                yield self._failure(f"{name}: {now}", "fails", 1)
            elif was and not now:
                yield self._failure(f"{name}; was: {was}", "works", -1)

    def _failure(self, note: str, verdict: str, change: int) -> Row:
        place = self._cell, self._allocator
        return Row(*place, None, verdict, change, importance=math.inf, note=note)

    def changes(self) -> Iterator[Row]:
        ways = {
            Way.TIME: self._time,
            Way.MEMORY: self._memory,
            Way.INSTRUCTIONS: self._instructions,
            Way.CALLS: self._calls,
        }
        for quantity in QUANTITIES:
            yield from ways[quantity.way](quantity)

    def _time(self, quantity: Quantity) -> Iterator[Row]:
        """Rows of the time; none for the reference, which `drift` covers."""
        if self._allocator == self._reference:
            return
        names = [self._allocator, *([self._reference] if self._reference else [])]
        own, *reference = _times(self._files, self._cell, names, quantity.key)
        notes = [f"noisy in {name}" for name, side in zip("AB", own, strict=True) if _noisy(side)]
        if reference and not all(reference[0]):
            reference = []
            notes.append(f"{self._reference} failed: not relative to it")
        doubts = [f"under {INSENSITIVE:.0%} of it is malloc"] if self._insensitive() else []
        doubts += [
            f"busy machine in {name}"
            for name, file in zip("AB", self._files, strict=True)
            if file.record.busy(self._cell, self._allocator)
        ]
        if all(own):
            yield self._sampled(quantity, own, reference[0] if reference else None, doubts, notes)

    def _memory(self, quantity: Quantity) -> Iterator[Row]:
        place = self._cell, self._allocator
        own = [file.record.series(*place, quantity.key) for file in self._files]
        if all(own):
            yield self._sampled(quantity, own, None, [], [])

    def _instructions(self, quantity: Quantity) -> Iterator[Row]:
        was, now = self._counts("instructions", quantity.key)
        if was and now:
            yield self._judged(quantity, was, now, Interval(*[now / was] * 3))  # exact

    def _calls(self, quantity: Quantity) -> Iterator[Row]:
        calls = self._counts("count", "syscalls")
        if all(calls):
            was, now = (each.get(quantity.key, 0) for each in calls)
            if was or now:
                yield self._judged(quantity, was, now, _poisson_ratio(now, was))

    def _counts(self, kind: str, key: str) -> list[Any]:
        """What was counted in A and in B."""
        return [file.counted(kind, self._cell, self._allocator, key) for file in self._files]

    def _insensitive(self) -> bool:
        return any(file.record.insensitive(self._cell) for file in self._files)

    def _sampled(
        self,
        quantity: Quantity,
        own: _Sides,
        reference: _Sides | None,
        doubts: list[str],
        notes: list[str],
    ) -> Row:
        """The row of a quantity measured in rounds. Doubts make it uncertain, notes do not."""
        try:
            if reference is None:
                before, after = (list(side.values()) for side in own)
                ratio = stats.unpaired_ratio(after, before, resamples=_RESAMPLES)
                was, now = stats.median(before), stats.median(after)
                rounds = min(len(before), len(after))
            else:
                pairs = [_paired(*both) for both in zip(own, reference, strict=True)]
                ratio = stats.ratio_of_ratios(pairs[1], pairs[0], resamples=_RESAMPLES)
                was, now = (stats.median(side) / stats.median(other) for side, other in pairs)
                rounds = min(len(side) for side, _ in pairs)
        except ValueError as error:
            return Row(self._cell, self._allocator, quantity, "unclear", note=str(error))
        if rounds < FEWEST_RUNS:
            doubts = [*doubts, f"rounds: {rounds}"]
        return self._judged(
            quantity, was, now, ratio, doubts, notes, relative=reference is not None
        )

    def _judged(
        self,
        quantity: Quantity,
        before: float,
        after: float,
        ratio: Interval,
        doubts: Sequence[str] = (),
        notes: Sequence[str] = (),
        *,
        relative: bool = False,
    ) -> Row:
        threshold = self._thresholds[quantity.way]
        verdict, change = ("unclear", 0) if doubts else judge(ratio, threshold, quantity)
        return Row(
            self._cell,
            self._allocator,
            quantity,
            verdict,
            change,
            before,
            after,
            ratio,
            relative,
            importance=abs(math.log(ratio.value)) / max(math.log1p(threshold), 1e-3),
            note=", ".join([*doubts, *notes]),
        )


def judge(ratio: Interval, threshold: float, quantity: Quantity) -> tuple[str, int]:
    """The word for a change, and 1 if it is certainly worse, -1 if certainly better, else 0."""
    limit = 1 + threshold
    if ratio.low > limit:
        return quantity.more, 1
    if ratio.high < 1 / limit:
        return quantity.less, -1
    if 1 / limit <= ratio.low and ratio.high <= limit:
        return "same", 0
    return "unclear", 0


def _times(files: Sequence[Measured], cell: str, names: Sequence[str], key: str) -> list[_Sides]:
    """Each allocator's times in A and in B; per operation if the numbers of operations differ."""
    def of(metric: str) -> list[_Sides]:
        return [[file.record.series(cell, name, metric) for file in files] for name in names]

    times, work = of(key), of("operations")
    if len({count for sides in work for side in sides for count in side.values()}) <= 1:
        return times
    return [
        [
            {number: time / done[number] for number, time in side.items() if done.get(number)}
            for side, done in zip(sides, counts, strict=True)
        ]
        for sides, counts in zip(times, work, strict=True)
    ]


def _paired(side: dict[int, float], reference: dict[int, float]) -> tuple[list[float], list[float]]:
    both = sorted(side.keys() & reference.keys())
    return [side[number] for number in both], [reference[number] for number in both]


def _noisy(side: dict[int, float]) -> bool:
    values = list(side.values())
    return bool(values) and stats.mad(values) > NOISY * stats.median(values)


def _poisson_ratio(after: int, before: int) -> Interval:
    """Ratio of two counts with its interval (normal in the logarithm; half a count is added to
    each, so a count of 0 is not exact). Most calls repeat exactly: equal counts give exactly 1."""
    if after == before:
        return Interval(1, 1, 1)
    value = math.log((after + 0.5) / (before + 0.5))
    half = _Z95 * math.sqrt(1 / (after + 0.5) + 1 / (before + 0.5))
    return Interval(math.exp(value - half), math.exp(value), math.exp(value + half))
