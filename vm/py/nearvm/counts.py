"""The file of the counting plugin (vm/plugin/README.md), checked, and its sums.

Invariant: Counts that were made are of a calibrated plugin and valid markers; else a
CountsError says in one line what is wrong. A single region may be useless: `complaint` says why.
An access is local if its memory is on the node of its processor, remote if it is on another one,
and else unknown.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_UNKNOWN = "unknown"

Number = Annotated[int, Field(ge=0)]
Kind = Literal["heap", "excluded"]


class CountsError(ValueError):
    """Counts that cannot be used, in one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Events(_Table):
    """The events of one CPU in the memory of one node."""

    loads: Number
    stores: Number
    misses: Number
    bounces: Number
    upgrades: Number

    @property
    def accesses(self) -> int:
        return self.loads + self.stores


class Cpu(_Table):
    """The counts of one CPU. The keys are numbers of nodes, or `unknown`."""

    pages_4k: Number
    pages_2m: Number
    heap: dict[str, Events]
    excluded: dict[str, Events]


class Region(_Table):
    """The counts between a begin marker and its end."""

    complete: bool
    excluded_pages: Number
    pages_4k: Number
    pages_2m: Number
    remote_pages: list[tuple[int, int]] = []  # address, accesses from other nodes; descending
    cpus: dict[int, Cpu]


class Cache(_Table):
    """The private cache of each CPU in the model."""

    kib: int
    ways: int
    line: int


class Shown(_Table):
    """The pages of one node that calibration showed."""

    samples: Number
    first: Number
    last: Number


class Calibration(_Table):
    nodes: dict[int, Shown]
    conflicts: Number
    wrong_cpus: Number


class File(_Table):
    """The whole file."""

    format: Literal[1]
    exited: bool
    cache: Cache
    cpus: dict[int, int]
    calibration: Calibration
    malformed: Number
    regions: list[Region]


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums for one kind of memory over all CPUs: accesses, and those that left the caches."""

    local: int
    remote: int
    unknown: int
    local_misses: int
    remote_misses: int
    bounces: int
    upgrades: int

    @property
    def accesses(self) -> int:
        return self.local + self.remote + self.unknown


@dataclass(frozen=True, slots=True)
class Pages:
    """Distinct pages of the heap: of all CPUs together, and the sum over each CPU's own."""

    all_4k: int
    all_2m: int
    cpus_4k: int
    cpus_2m: int


def _names(table: type) -> list[str]:
    return [field.name for field in fields(table)]


# The entries of entry(), as conditions name them.
ENTRIES = [
    *(f"{kind}.{name}" for kind in get_args(Kind) for name in ("accesses", *_names(Sums))),
    *(f"pages.{name}" for name in _names(Pages)),
]


@dataclass(frozen=True, slots=True)
class Counts:
    """A valid file of counts."""

    file: File

    @property
    def regions(self) -> list[Region]:
        return self.file.regions

    def sums(self, region: int = 0, kind: Kind = "heap") -> Sums:
        def total(what: Callable[[Events], int], where: Callable[[str, str], bool]) -> int:
            found = self._events(self.regions[region], kind)
            return sum(what(events) for own, node, events in found if where(own, node))

        return Sums(
            local=total(lambda each: each.accesses, _is_local),
            remote=total(lambda each: each.accesses, _is_remote),
            unknown=total(lambda each: each.accesses, _is_unknown),
            local_misses=total(lambda each: each.misses, _is_local),
            remote_misses=total(lambda each: each.misses, _is_remote),
            bounces=total(lambda each: each.bounces, _anywhere),
            upgrades=total(lambda each: each.upgrades, _anywhere),
        )

    def complaint(self, region: int = 0) -> str | None:
        """What makes the counts of a region useless, if anything does."""
        sums = self.sums(region)
        if not self.regions[region].complete:
            return f"region {region} did not come to its end"
        if sums.unknown:  # calibration showed nearly all free memory, so none may be unknown
            return f"region {region}: no known node has {sums.unknown} of {sums.accesses} accesses"
        return None

    def pages(self, region: int = 0) -> Pages:
        found = self.regions[region]
        return Pages(
            all_4k=found.pages_4k,
            all_2m=found.pages_2m,
            cpus_4k=sum(cpu.pages_4k for cpu in found.cpus.values()),
            cpus_2m=sum(cpu.pages_2m for cpu in found.cpus.values()),
        )

    def entry(self, region: int = 0) -> dict[str, Any]:
        """The counts of a region, as a verdict has them."""
        made: dict[str, Any] = {}
        for kind in get_args(Kind):
            sums = self.sums(region, kind)
            made[kind] = asdict(sums) | {"accesses": sums.accesses}
        return made | {"pages": asdict(self.pages(region)), "cache": self.file.cache.model_dump()}

    def matrix(self, region: int = 0, kind: Kind = "heap") -> dict[tuple[int, str], int]:
        """Accesses by the node of the CPU and by that of the memory."""
        made: dict[tuple[int, str], int] = {}
        for own, node, events in self._events(self.regions[region], kind):
            place = (int(own), node)
            made[place] = made.get(place, 0) + events.accesses
        return made

    def _events(self, region: Region, kind: Kind) -> Iterator[tuple[str, str, Events]]:
        """The CPU's node, the memory's, and the events."""
        for number, cpu in region.cpus.items():
            for node, events in getattr(cpu, kind).items():
                yield str(self.file.cpus[number]), node, events


def _is_local(own: str, node: str) -> bool:
    return own == node


def _is_remote(own: str, node: str) -> bool:
    return node not in (own, _UNKNOWN)


def _is_unknown(own: str, node: str) -> bool:
    return node == _UNKNOWN


def _anywhere(own: str, node: str) -> bool:
    return True


def read(path: Path) -> Counts:
    """The counts in a file that the plugin wrote."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CountsError(f"{path} is missing: the plugin did not start") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CountsError(f"{path}: cannot be read: {error}") from None
    if not text:
        raise CountsError(f"{path} is empty: no region came to its end, and QEMU was killed")
    return parse(text, str(path))


def parse(text: str, name: str = "counts") -> Counts:
    """`name` is the name that errors give."""
    try:
        file = File.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        raise CountsError(f"{name}: not JSON: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise CountsError(f"{name}: {key}: {first['msg']}") from None
    for problem in _problems(file):
        raise CountsError(f"{name}: {problem}")
    return Counts(file)


def _problems(file: File) -> Iterator[str]:
    """What makes these counts useless, the worst first."""
    calibration = file.calibration
    if not calibration.nodes:
        yield "not calibrated: `calibrate` did not run in the guest"
    if calibration.conflicts:
        yield f"{calibration.conflicts} pages contradict the map of the nodes"
    if calibration.wrong_cpus:
        yield f"{calibration.wrong_cpus} CPUs are not on the nodes that the plugin was told"
    if file.malformed:
        yield f"{file.malformed} markers made no sense where they were"
    if not file.regions:
        yield "no region was counted: did the workload run with --mark?"
    for number, region in enumerate(file.regions):
        if strangers := set(region.cpus) - set(file.cpus):
            yield f"region {number}: nobody knows the node of CPU {min(strangers)}"
