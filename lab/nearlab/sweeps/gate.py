"""What changed in the summary of a sweep from one result to another: a part of the regression gate.

Invariant: both summaries are over the cells that both results have; a result that is no sweep has
no changes. A share may fall, and a mean rise, by the gate's threshold for time or for memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from nearlab.compare.compare import Way
from nearlab.results import record
from nearlab.results.record import Record
from nearlab.sweeps import verdicts
from nearlab.sweeps.points import points
from nearlab.sweeps.verdicts import Sweep, Verdict


@dataclass(frozen=True, slots=True)
class Change:
    """A number of the summary in A and in B. `worse` is None if it is not judged in one of them."""

    target: str
    before: float
    after: float
    worse: bool | None


def changes(first: Path, second: Path, thresholds: Mapping[Way, float]) -> list[Change]:
    """The changes of all numbers that both summaries of the later one's own allocator have."""
    before, after = record.read(first), record.read(second)
    subject = after.own_subject()
    shared = {cell.name for cell in before.cells} & {cell.name for cell in after.cells}
    summaries = [_summary(one, subject, shared) for one in (before, after)]
    return [
        _change(was, now, thresholds)
        for target, was in summaries[0].items()
        if (now := summaries[1].get(target)) is not None
    ]


def _summary(whole: Record, subject: str | None, cells: set[str]) -> dict[str, Verdict]:
    part = replace(whole, cells=tuple(cell for cell in whole.cells if cell.name in cells))
    if subject is None or subject not in whole.allocator_by_name:
        return {}
    if not points(part, subject, "memory"):
        return {}
    return {one.target: one for one in verdicts.verdicts(Sweep.of(part, subject))}


def _change(was: Verdict, now: Verdict, thresholds: Mapping[Way, float]) -> Change:
    before, after = was.value or 0.0, now.value or 0.0
    way = Way.MEMORY if was.target.startswith("memory") else Way.TIME
    if was.more_is_better:
        worse = after < before - thresholds[way]
    else:
        worse = after > before * (1 + thresholds[way])
    judged = was.reached is not None and now.reached is not None
    return Change(was.target, before, after, worse if judged else None)


def table(found: list[Change]) -> Table:
    """The changes, with the verdict on each."""
    made = Table(title="The summary of the sweep", title_justify="left")
    for heading in ("target", "A", "B", "verdict"):
        made.add_column(heading)
    words = {True: ("worse", "red"), False: ("within the threshold", ""), None: ("unclear", "")}
    for one in found:
        verdict = Text(*words[one.worse])
        made.add_row(one.target, f"{one.before:.3f}", f"{one.after:.3f}", verdict)
    return made
