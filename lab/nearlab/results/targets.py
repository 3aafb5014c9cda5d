"""The targets of a plan, and whether a result reaches them.

A target is judged by the unfavourable edge of the interval. Invariant: if one of its cells failed
or was not measured, a target is `not measured`, never reached.
"""

import fnmatch
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from nearlab.plan.plan import Target
from nearlab.results import stats
from nearlab.results.record import Cell, Record
from nearlab.results.stats import Interval

WORDS = {True: "reached", False: "missed", None: "not measured"}
SMALLEST = "smallest"  # stands for an allocator: in each cell the peer with the smallest number


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target. `reached` is None when it was not measured."""

    target: str
    found: str
    reached: bool | None


class _NotMeasured(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _Pair:
    """The subject's numbers in a cell, and the numbers to compare them with."""

    cell: str
    ours: list[float]
    theirs: list[float]
    peer: str

    @property
    def ratio(self) -> Interval:
        return stats.ratio(self.ours, self.theirs)

    @property
    def more(self) -> Interval:
        return stats.difference(self.ours, self.theirs)


def verdicts(record: Record) -> list[Verdict]:
    """The verdict on each [[target]] of the plan, in its order."""
    plan = tomllib.loads(record.plan.get("plan_toml", ""))
    targets = (Target.model_validate(entry) for entry in plan.get("target", []))
    return [_verdict(record, target) for target in targets]


def table(found: Sequence[Verdict]) -> Table:
    made = Table("target", "found", "verdict", title="Targets", title_justify="left")
    colours = {True: "green", False: "red", None: "yellow"}
    for one in found:
        made.add_row(one.target, one.found, f"[{colours[one.reached]}]{WORDS[one.reached]}")
    reached = sum(one.reached is True for one in found)
    made.caption = f"{reached} of {len(found)} reached"
    return made


def _verdict(record: Record, target: Target) -> Verdict:
    try:
        found, reached = _KINDS[target.kind](record, target)
        return Verdict(target.name, found, reached)
    except _NotMeasured as reason:
        return Verdict(target.name, f"not measured: {reason}", None)


def _cells(record: Record, target: Target) -> list[Cell]:
    cells = [
        cell
        for cell in record.cells
        if any(fnmatch.fnmatchcase(cell.workload, one) for one in target.workloads)
    ]
    if not cells:
        raise _NotMeasured(f"no cell of {', '.join(target.workloads)}")
    return cells


def _pairs(record: Record, target: Target) -> list[_Pair]:
    return [_pair(record, cell.name, target) for cell in _cells(record, target)]


def _pair(record: Record, cell: str, target: Target) -> _Pair:
    ours, metric = target.allocator, target.metric
    peer = target.relative_to or ours
    if peer == SMALLEST:
        peer = _smallest(record, cell, ours, metric)
    metrics = metric, target.relative_to_metric or metric
    for name, one in ((ours, metrics[0]), (peer, metrics[1])):
        if not record.series(cell, name, one):
            raise _NotMeasured(f"{cell}, {name}: {record.problem(cell, name) or 'no ' + one}")
    pair = _Pair(cell, *record.paired_enough(cell, ours, peer, metrics), peer)
    if len(pair.ours) < stats.FEWEST_RUNS and target.kind != "value":
        raise _NotMeasured(f"{cell}: fewer than {stats.FEWEST_RUNS} rounds")
    return pair


def _smallest(record: Record, cell: str, ours: str, metric: str) -> str:
    peers = (one.name for one in record.allocators if one.name != ours)
    found = {name: list(record.series(cell, name, metric).values()) for name in peers}
    medians = {name: stats.median(values) for name, values in found.items() if values}
    if not medians:
        raise _NotMeasured(f"{cell}, peers")
    return min(medians, key=lambda name: medians[name])


def _mean(record: Record, target: Target) -> tuple[str, bool]:
    """The geometric mean of the ratios in the cells."""
    pairs = [(pair.ours, pair.theirs) for pair in _pairs(record, target)]
    found = stats.geometric_mean_of_ratios(pairs)
    return found.shown("{:.3f}".format), found.high <= target.at_most  # a bound may be 1 %


def _paired(record: Record, target: Target) -> tuple[str, bool]:
    """As `_mean`, of the ratios within the rounds."""
    pairs = [(pair.ours, pair.theirs) for pair in _pairs(record, target)]
    found = stats.geometric_mean_of_paired_ratios(pairs)
    return found.shown("{:.4f}".format), found.high <= target.at_most


def _each(record: Record, target: Target) -> tuple[str, bool]:
    """The ratio in every cell; an excess up to `slack` does not count."""
    pairs = _pairs(record, target)
    above = [
        pair
        for pair in pairs
        if pair.ratio.high > target.at_most
        and (target.slack is None or pair.more.high > target.slack)
    ]
    worst = max(pairs, key=lambda pair: pair.ratio.high)
    shown = (f"{pair.cell}: {pair.ratio} of {pair.peer}" for pair in above or [worst])
    return "; ".join(shown), not above


def _difference(record: Record, target: Target) -> tuple[str, bool]:
    """The subject's excess over the peer, in every cell."""
    worst = max((pair.more for pair in _pairs(record, target)), key=lambda more: more.high)
    found = f"{worst.value:+.0f} [{worst.low:+.0f}, {worst.high:+.0f}]"
    return found, worst.high <= target.at_most


def _value(record: Record, target: Target) -> tuple[str, bool]:
    """The subject's largest number in any run."""
    worst = max(max(pair.ours) for pair in _pairs(record, target))
    return f"{worst:.0f}", worst <= target.at_most


_KINDS: dict[str, Callable[[Record, Target], tuple[str, bool]]] = {
    "mean": _mean,
    "paired": _paired,
    "each": _each,
    "difference": _difference,
    "value": _value,
}
