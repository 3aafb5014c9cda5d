"""The outcomes of some runs as a table: a row for each topology, case and allocator.

Invariant: numbers are medians over the seeds whose runs passed, with the widest deviation from it
in percent; an unusual number is marked, and the marks are explained below; no number is a time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearvm import medians
from nearvm.medians import Median

_SHOWN = ("pages", "wrong", "pages_away", "blocks_away", "spills", "bind_refused")

# The columns of the table of counts, and their heads.
COUNTED = {
    "accesses": "accesses",
    "remote": "remote",
    "misses": "misses",
    "remote_misses": "remote misses",
    "bounces": "bounces",
    "pages_4k": "4 KiB pages",
    "pages_2m": "2 MiB pages",
}


def show(out: Console, verdicts: Sequence[dict[str, Any]]) -> None:
    """The table of the placement; a run that passed without numbers shows only its outcome."""
    shown = Table(box=None, pad_edge=False)
    for head in ("topology", "case", "allocator", "outcome"):
        shown.add_column(head, no_wrap=True)
    columns = [key for key in _SHOWN if any(key in (each["result"] or {}) for each in verdicts)]
    for head in columns:
        shown.add_column(head.replace("_", " "), justify="right", no_wrap=True)
    found = []
    for key, runs in medians.grouped(verdicts).items():
        numbers = [medians.printed(runs, column) for column in columns]
        shown.add_row(*map(escape, key), ", ".join(outcomes_of(runs)), *map(_text, numbers))
        found += numbers
    _print(out, shown, found)


def show_counts(out: Console, verdicts: Sequence[dict[str, Any]]) -> None:
    """The table of the accesses in counted runs; nothing if there are none."""
    if not (caches := [each["counts"]["cache"] for each in verdicts if each["counts"]]):
        return
    shown = Table(box=None, pad_edge=False, title=title_of(caches[0]), title_justify="left")
    for head in ("topology", "case", "allocator"):
        shown.add_column(head, no_wrap=True)
    for head in COUNTED.values():
        shown.add_column(head, justify="right", no_wrap=True)
    found = []
    for key, runs in medians.grouped(verdicts).items():
        numbers = [medians.counted(runs, name) for name in COUNTED]
        if any(numbers):
            shown.add_row(*map(escape, key), *map(_text, numbers))
        found += numbers
    _print(out, shown, found)


def title_of(cache: dict[str, Any]) -> str:
    return f"Accesses to the heap; misses of private caches of {cache['kib']} KiB in a model"


def legend(found: Iterable[Median | None]) -> list[str]:
    """The meaning of the marks of these numbers; nothing if none has a mark."""
    shown = [each for each in found if each is not None]
    lines = []
    if any(each.is_wide for each in shown):
        most = f"{100 * medians.WIDE:.0f} %"
        lines.append(f"{medians.WIDE_MARK}: the farthest run is more than {most} from the median")
    if any(each.runs != each.asked for each in shown):
        lines.append("n: so many runs passed, fewer than were asked for")
    return lines


def outcomes_of(runs: Sequence[dict[str, Any]]) -> list[str]:
    """`pass`, or how many of the runs had which outcome."""
    counts = Counter(each["outcome"] for each in runs)
    if len(counts) == 1:
        return list(counts)
    return [f"{outcome} ({count} of {len(runs)})" for outcome, count in counts.items()]


def _text(found: Median | None) -> str:
    return "" if found is None else str(found)


def _print(out: Console, shown: Table, found: Iterable[Median | None]) -> None:
    out.print(shown)
    for line in legend(found):
        out.print(line, highlight=False, markup=False)
