"""What came of some runs, as a table: a row for each topology, case and allocator.

Invariant: numbers are medians over the seeds, with the widest deviation from it in percent; no
number is a time.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_SHOWN = ("pages", "wrong", "pages_away", "blocks_away", "spills", "bind_refused")

# What the table of counts shows, each of the entry `counts` of a verdict.
_COUNTED: dict[str, Callable[[dict], float]] = {
    "accesses": lambda counts: counts["heap"]["accesses"],
    "remote": lambda counts: counts["heap"]["remote"],
    "misses": lambda counts: counts["heap"]["local_misses"] + counts["heap"]["remote_misses"],
    "remote misses": lambda counts: counts["heap"]["remote_misses"],
    "bounces": lambda counts: counts["heap"]["bounces"],
    "4 KiB pages": lambda counts: counts["pages"]["all_4k"],
    "2 MiB pages": lambda counts: counts["pages"]["all_2m"],
}

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


def show_counts(out: Console, verdicts: Sequence[dict]) -> None:
    """The table of the accesses, of the runs that were counted; none without such."""
    counted = [each for each in verdicts if each["counts"]]
    if not counted:
        return
    cache = counted[0]["counts"]["cache"]
    title = f"Accesses to the heap; misses of private caches of {cache['kib']} KiB in a model"
    shown = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for head in ("topology", "case", "allocator"):
        shown.add_column(head, no_wrap=True)
    for head in _COUNTED:
        shown.add_column(head, justify="right")
    for key, runs in grouped(counted).items():
        numbers = [[number(each["counts"]) for each in runs] for number in _COUNTED.values()]
        shown.add_row(*map(escape, key), *map(median_with_spread, numbers))
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
