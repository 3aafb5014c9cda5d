"""A plan of the NUMA machine: cases on topologies under several allocators, and the comparisons
that must hold between these.

Plans are the files of vm/plans; the fields below say what each key means. Invariant: a Plan
that was made can be run: its topologies, cases and allocators are known, and its cases are counted.
Any fault is a PlanError of one line that names the file and the key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from nearlab.plan import chosen
from nearvm import cases, files, folders, topology
from nearvm.cases import CaseError
from nearvm.medians import NUMBERS
from nearvm.topology import TopologyError

_Some = Annotated[list[str], Field(min_length=1)]


class PlanError(ValueError):
    """A plan that cannot be run, in one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Compare(_Table):
    """`[[compare]]`: a bound on the median of an allocator relative to that of each other one."""

    reason: str
    allocator: str = "nearmalloc"
    others: list[str] = []  # if empty, all others of the plan
    cases: list[str] = []  # if empty, all
    topologies: list[str] = []  # if empty, all
    number: str = "remote"  # one of medians.NUMBERS
    at_most: Annotated[float, Field(gt=0)] = 1.0  # times the other's median
    # Compares the lowest run of the allocator with the highest of the other, not the medians.
    beyond_spread: bool = False


class _Keys(_Table):
    """The whole file."""

    description: str
    topologies: _Some
    cases: _Some
    allocators: _Some
    seeds: Annotated[int, Field(ge=1)] = 5
    baseline: str = "glibc"  # the figure shows the others relative to this one
    # A number not above its floor is noise of the harness: it meets every comparison; where the
    # baseline is not above it, the figure shows the others relative to the floor.
    floors: dict[str, Annotated[int, Field(ge=1)]] = {}
    compare: list[Compare] = []


@dataclass(frozen=True, slots=True)
class Plan:
    """A valid plan, under the name of its file."""

    name: str
    keys: _Keys
    text: str

    def floor(self, number: str) -> int:
        return self.keys.floors.get(number, 0)


def names() -> list[str]:
    return files.names(folders.plans())


def load(name: str) -> Plan:
    """The plan of that name in vm/plans, or of that file."""
    return parse(*files.find(folders.plans(), "plan", name, PlanError))


def parse(text: str, name: str) -> Plan:
    """`name` is the name that errors give."""
    return Plan(name, files.parse(text, name, _Keys, _problems, PlanError), text)


def _problems(keys: _Keys) -> Iterator[str]:
    for key, known in (("topologies", topology.load), ("cases", cases.load)):
        try:
            for name in getattr(keys, key):
                known(name)
        except (TopologyError, CaseError) as error:
            yield f"{key}: {error}"
    for name in keys.cases:
        if not cases.load(name).keys.counted:
            yield f"cases: {name} is not counted"
    if problem := chosen.problem(keys.allocators):
        yield f"allocators: {problem}"
    yield from _strangers("baseline", [keys.baseline], keys.allocators)
    yield from _strangers("floors", keys.floors, NUMBERS)
    for index, one in enumerate(keys.compare):
        where = f"compare[{index}]"
        yield from _strangers(f"{where}.allocator", [one.allocator], keys.allocators)
        yield from _strangers(f"{where}.others", one.others, keys.allocators)
        yield from _strangers(f"{where}.cases", one.cases, keys.cases)
        yield from _strangers(f"{where}.topologies", one.topologies, keys.topologies)
        yield from _strangers(f"{where}.number", [one.number], NUMBERS)
        if one.allocator in one.others:
            yield f"{where}.others: {one.allocator} is compared with itself"


def _strangers(
    key: str, names_of: list[str] | dict[str, Any], known: list[str] | dict[str, Any]
) -> Iterator[str]:
    for name in names_of:
        if name not in known:
            yield f"{key}: there is no {name!r}; there are: {', '.join(known)}"
