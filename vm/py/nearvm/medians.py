"""Medians of the counts of runs that differ only by their seed.

Invariant: a run that did not pass gives no number; a Median has the number of its runs, the number
that was asked for, and the largest deviation of a run from it.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

PASS = "pass"
WIDE = 0.05  # a spread that is flagged: with it the median means little
WIDE_MARK = "!"

Key = tuple[str, str, str]  # topology, case, allocator
Counted = Callable[[dict[str, Any]], float]

# The numbers of the entry `counts` of a verdict, by the names that plans use. A TLB belongs to a
# processor: the reach that TLBs need is the sum of the pages that each processor touched.
NUMBERS: dict[str, Counted] = {
    "accesses": lambda counts: counts["heap"]["accesses"],
    "remote": lambda counts: counts["heap"]["remote"],
    "misses": lambda counts: counts["heap"]["local_misses"] + counts["heap"]["remote_misses"],
    "remote_misses": lambda counts: counts["heap"]["remote_misses"],
    "bounces": lambda counts: counts["heap"]["bounces"],
    "pages_4k": lambda counts: counts["pages"]["all_4k"],
    "pages_2m": lambda counts: counts["pages"]["all_2m"],
    "tlb_4k": lambda counts: counts["pages"]["cpus_4k"],
    "tlb_2m": lambda counts: counts["pages"]["cpus_2m"],
}


@dataclass(frozen=True, slots=True)
class Median:
    """The median of the runs that passed."""

    value: float
    low: float
    high: float
    runs: int
    asked: int

    @property
    def spread(self) -> float:
        """The farthest run's distance from the median, as a fraction of it."""
        widest = max(self.high - self.value, self.value - self.low)
        if not widest:
            return 0.0
        return widest / self.value if self.value else math.inf

    @property
    def is_wide(self) -> bool:
        return self.spread > WIDE

    def __str__(self) -> str:
        """`1,234`, `1,234 ±2 %`, `1,234 ±9 %!`, `1,234 (n=3)` where more than three were asked."""
        text = f"{self.value:,.0f}"
        if self.value and self.spread:
            text += f" ±{100 * self.spread:.0f} %"
        elif self.spread:
            text += f" to {self.high:,.0f}"
        text += WIDE_MARK if self.is_wide else ""
        return text if self.runs == self.asked else f"{text} (n={self.runs})"


def of(numbers: Sequence[float], asked: int | None = None) -> Median | None:
    """None if there are no numbers."""
    if not numbers:
        return None
    middle = float(statistics.median(numbers))
    runs = len(numbers)
    return Median(middle, min(numbers), max(numbers), runs, runs if asked is None else asked)


def counted(runs: Sequence[dict[str, Any]], name: str) -> Median | None:
    """The median of one of NUMBERS; None if no run that passed was counted."""
    number = NUMBERS[name]
    return of([number(each["counts"]) for each in passed(runs) if each["counts"]], len(runs))


def printed(runs: Sequence[dict[str, Any]], key: str) -> Median | None:
    """The median of a number that the program printed."""
    results = [each["result"] for each in passed(runs) if each["result"]]
    numbers = [result[key] for result in results if isinstance(result.get(key), int | float)]
    return of(numbers, len(runs))


def passed(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in runs if each["outcome"] == PASS]


def grouped(verdicts: Iterable[dict[str, Any]]) -> dict[Key, list[dict[str, Any]]]:
    """The verdicts in groups that differ only by their seed, in order."""
    groups: dict[Key, list[dict[str, Any]]] = {}
    for each in verdicts:
        groups.setdefault((each["topology"], each["case"], each["allocator"]), []).append(each)
    return groups
