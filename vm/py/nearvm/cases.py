"""A case: one program in a guest, its limits, and the conditions that its result must meet.

Cases are the files of vm/cases; the fields below say what each key means. Invariant: a Case
that was made has a program, and conditions that can be read; any fault is a CaseError of one
line. In arguments, environment and conditions, {cpus}, {pairs}, {homes} and {memory_nodes} are
replaced by their values for the topology under the case's limits.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from nearlab import places
from nearvm import counts, files, folders, verdict
from nearvm.guest import Limits
from nearvm.machine import TIMEOUT_S, HugePages
from nearvm.topology import Topology
from nearvm.verdict import Condition

_Some = Annotated[list[str], Field(min_length=1)]
_NAME = re.compile(r"\{(\w+)\}")
_VALUES: dict[str, Callable[[Topology, list[int]], object]] = {
    "cpus": lambda machine, _: len(machine.node_of_cpu),
    "pairs": lambda machine, _: max(1, len(machine.node_of_cpu) // 2),
    "homes": lambda machine, allowed: machine.homes(allowed),
    "memory_nodes": lambda machine, allowed: len(machine.allowed(allowed)),
}


class CaseError(ValueError):
    """A case that cannot be run, in one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Limits(_Table):
    """`[limits]`: see guest.Limits."""

    mems: str = ""
    refuse: Literal["", "mbind", "policies"] = ""
    no_sysfs: bool = False
    membind: str = ""
    interleave: str = ""
    fill: str = ""


class _Keys(_Table):
    """The whole file."""

    description: str
    program: str = ""  # a program that is written for the guest, in vm/programs
    workload: str = ""  # or a workload of the lab
    arguments: list[str] = []
    counted: bool = False  # its accesses are counted where the plugin is there
    # For a counted case: next threads on other nodes, or on one node; or threads are not pinned.
    pin: Literal["spread", "compact", "none"] = "spread"
    seeded: bool = False  # the program takes --seed, as workloads do
    allocators: _Some = ["nearmalloc"]
    topologies: _Some = ["2n"]  # the topologies on which the whole matrix runs it
    huge_pages: HugePages = "madvise"
    timeout_s: Annotated[float, Field(gt=0)] = TIMEOUT_S
    environment: dict[str, str] = {}
    limits: _Limits = _Limits()
    # For the result: KEY = "== 0"; for the counts: "counts.heap.remote" = "== 0".
    expect: Annotated[dict[str, str], Field(min_length=1)]
    expect_nearmalloc: dict[str, str] = {}  # more conditions, where nearmalloc serves


@dataclass(frozen=True, slots=True)
class Case:
    """A valid case, under the name of its file."""

    name: str
    keys: _Keys

    @property
    def binary(self) -> Path:
        keys = self.keys
        return (
            places.workload_dir() / keys.workload
            if keys.workload
            else folders.program(keys.program)
        )

    @property
    def limits(self) -> Limits:
        return Limits(**self.keys.limits.model_dump())

    def arguments(self, machine: Topology) -> list[str]:
        return [self._filled(text, machine) for text in self.keys.arguments]

    def environment(self, machine: Topology) -> dict[str, str]:
        return {name: self._filled(text, machine) for name, text in self.keys.environment.items()}

    def conditions(self, machine: Topology, allocator: str) -> list[Condition]:
        wanted = dict(self.keys.expect)
        if allocator == "nearmalloc":
            wanted |= self.keys.expect_nearmalloc
        return [Condition(key, self._filled(text, machine)) for key, text in wanted.items()]

    def _filled(self, text: str, machine: Topology) -> str:
        allowed = verdict.cpu_list(self.keys.limits.mems or self.keys.limits.membind)
        return _NAME.sub(lambda name: str(_VALUES[name[1]](machine, allowed)), text)


def names() -> list[str]:
    return files.names(folders.cases())


def load(name: str) -> Case:
    """The case of that name in vm/cases, or of that file."""
    return parse(*files.find(folders.cases(), "case", name, CaseError))


def parse(text: str, name: str) -> Case:
    """`name` is the name that errors give."""
    return Case(name, files.parse(text, name, _Keys, _problems, CaseError))


def _problems(keys: _Keys) -> Iterator[str]:
    if bool(keys.program) == bool(keys.workload):
        yield "program: a case has a program or a workload"
    conditions = [*keys.expect.items(), *keys.expect_nearmalloc.items()]
    texts = [*keys.arguments, *keys.environment.values(), *(text for _, text in conditions)]
    for name in _NAME.findall(" ".join(texts)):
        if name not in _VALUES:
            yield f"there is no {{{name}}}; there are: {', '.join(_VALUES)}"
    for key, text in conditions:
        if key.startswith("counts.") and not keys.counted:
            yield f"expect.{key}: the case is not counted"
        elif key.startswith("counts.") and key.removeprefix("counts.") not in counts.ENTRIES:
            yield f"expect.{key}: there is no such count; there are: {', '.join(counts.ENTRIES)}"
        try:
            Condition(key, _NAME.sub("0", text)).check()
        except verdict.VerdictError as error:
            yield f"expect.{error}"
