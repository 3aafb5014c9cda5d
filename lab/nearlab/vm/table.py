"""What came of some runs, as a table: a row for each topology, case and allocator.

Invariant: numbers are medians over the seeds, with the widest deviation from it in percent; no
number is a time.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_SHOWN = ("pages", "wrong", "pages_away", "blocks_away", "spills", "bind_refused")

Key = tuple[str, str, str]


def show(out: Console, verdicts: Sequence[dict]) -> None:
    """The table of the placement; what passed without numbers has its outcome alone."""
    shown = Table(box=None, pad_edge=False)
    for head in ("topology", "case", "allocator", "outcome"):
        shown.add_column(head, no_wrap=True)
    columns = [key for key in _SHOWN if any(key in (each["result"] or {}) for each in verdicts)]
    for head in columns:
        shown.add_column(head.replace("_", " "), justify="right")
    for key, runs in grouped(verdicts).items():
        outcome = ", ".join(outcomes_of(runs))
        numbers = [numbers_of(runs, column) for column in columns]
        shown.add_row(*map(escape, key), outcome, *map(median_with_spread, numbers))
    out.print(shown)


def grouped(verdicts: Iterable[dict]) -> dict[Key, list[dict]]:
    """The verdicts that differ by their seed alone, in order."""
    groups: dict[Key, list[dict]] = {}
    for each in verdicts:
        groups.setdefault((each["topology"], each["case"], each["allocator"]), []).append(each)
    return groups


def outcomes_of(runs: Sequence[dict]) -> list[str]:
    """`pass`, or how many of the runs had which outcome."""
    counts = Counter(each["outcome"] for each in runs)
    if len(counts) == 1:
        return list(counts)
    return [f"{outcome} ({count} of {len(runs)})" for outcome, count in counts.items()]


def numbers_of(runs: Iterable[dict], key: str) -> list[float]:
    results = [each["result"] for each in runs if each["result"]]
    return [result[key] for result in results if isinstance(result.get(key), int | float)]


def median_with_spread(numbers: Sequence[float]) -> str:
    """`1,234` of equal numbers, `1,234 ±2 %` of others, nothing of none."""
    if not numbers:
        return ""
    middle = statistics.median(numbers)
    widest = max(abs(number - middle) for number in numbers)
    spread = f" ±{100 * widest / middle:.0f} %" if widest and middle else ""
    return f"{middle:,.0f}{spread}"
