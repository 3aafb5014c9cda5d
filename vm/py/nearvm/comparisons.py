"""The comparisons that a plan demands between allocators, tested on the medians of its runs.

Invariant: each comparison of the plan has one outcome for each topology, case and other allocator:
it holds, is noise, falls short, or could not be made, as an allocator has no run that passed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nearvm import medians
from nearvm.medians import Median
from nearvm.plans import Compare, Plan

Outcome = Literal["holds", "noise", "falls short", "not made"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One allocator compared with another one."""

    compare: Compare
    topology: str
    case: str
    other: str
    own: Median | None
    beside: Median | None
    floor: int

    @property
    def outcome(self) -> Outcome:
        if self.own is None or self.beside is None:
            return "not made"
        spread = self.compare.beyond_spread
        own = self.own.low if spread else self.own.value
        beside = self.beside.high if spread else self.beside.value
        fine = own <= self.compare.at_most * beside
        if self.own.value <= self.floor and not (fine and self.beside.value > self.floor):
            return "noise"
        return "holds" if fine else "falls short"

    @property
    def ratio(self) -> str:
        if self.own is None or self.beside is None or not self.beside.value:
            return ""
        return f"{self.own.value / self.beside.value:.3g}"

    def __str__(self) -> str:
        compare = self.compare
        number = compare.number.replace("_", " ")
        where = f"{self.topology} {self.case}: {compare.allocator}"
        if self.own is None or self.beside is None:
            lost = compare.allocator if self.own is None else self.other
            return f"{where} and {self.other}, {number}: no run of {lost} passed and was counted"
        text = f"{where} has {self.own} {number}, {self.other} {self.beside}"
        ratio = f": {self.ratio} times" if self.ratio else ""
        return f"{text}{ratio}, at most {compare.at_most:.3g} ({compare.reason})"


def judged(plan: Plan, verdicts: Sequence[dict[str, Any]]) -> list[Compared]:
    groups = medians.grouped(verdicts)
    found = []
    for compare in plan.keys.compare:
        floor = plan.floor(compare.number)
        for where, case, other in _pairs(plan, compare):
            own, beside = (
                medians.counted(groups.get((where, case, name), []), compare.number)
                for name in (compare.allocator, other)
            )
            found.append(Compared(compare, where, case, other, own, beside, floor))
    return found


def _pairs(plan: Plan, compare: Compare) -> Iterator[tuple[str, str, str]]:
    keys = plan.keys
    others = compare.others or [name for name in keys.allocators if name != compare.allocator]
    for where in compare.topologies or keys.topologies:
        for case in compare.cases or keys.cases:
            yield from ((where, case, other) for other in others)
