"""How a run's accesses are counted: QEMU's plugin, the step that calibrates it, the plugin's file.

Invariant: a counted case runs its workload with marks and pins its threads as the case says; the
verdict has its counts, or the reason why there are none. Without the plugin it does not run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearvm import counts, folders
from nearvm.cases import Case
from nearvm.counts import Counts, CountsError
from nearvm.guest import Step
from nearvm.machine import Plugin
from nearvm.topology import Topology

PLUGIN = "libnearcount.so"
_CALIBRATE = "calibrate"


def missing(case: Case) -> str | None:
    """Why the case cannot be counted; None if it can, or need not be."""
    if case.keys.counted and not folders.program(PLUGIN).is_file():
        return f"{PLUGIN}, which counts accesses, is not built"
    return None


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts one run. `out` is None where nothing is counted."""

    topology: Topology
    out: Path | None
    pin: str = "spread"

    @classmethod
    def of(cls, case: Case, topology: Topology, folder: Path) -> "Counter":
        return cls(topology, folder / "counts.json" if case.keys.counted else None, case.keys.pin)

    def plugin(self) -> Plugin | None:
        if self.out is None:
            return None
        return Plugin(folders.program(PLUGIN), {"out": str(self.out), "cpus": self._cpus()})

    def before(self) -> list[Step]:
        """The steps that run before the counted one."""
        return [Step(_CALIBRATE, folders.program(_CALIBRATE))] if self.out else []

    def arguments(self) -> list[str]:
        """More arguments of the workload."""
        return ["--mark", "--pin", self.pin] if self.out else []

    def environment(self) -> dict[str, str]:
        """More environment of the program: the loader looks no name up while accesses count."""
        return {"LD_BIND_NOW": "1"} if self.out else {}

    def read(self, regions: int) -> list[tuple[dict[str, Any] | None, str | None]]:
        """For each of so many marked regions, its counts, or why there are none; neither where
        nothing is counted."""
        if self.out is None:
            return [(None, None)] * regions
        try:
            found = counts.read(self.out)
        except CountsError as error:
            complaint = str(error).replace(str(self.out), "the plugin's counts")
            return [(None, complaint)] * regions
        if len(found.regions) != regions:
            complaint = f"the plugin counted {len(found.regions)} regions, expected {regions}"
            return [(None, complaint)] * regions
        return [_of_region(found, number) for number in range(regions)]

    def _cpus(self) -> str:
        """`CPU:NODE+CPU:NODE...`"""
        nodes = self.topology.node_of_cpu
        return "+".join(f"{cpu}:{node}" for cpu, node in enumerate(nodes))


def _of_region(found: Counts, number: int) -> tuple[dict[str, Any] | None, str | None]:
    """The entry `counts` of a verdict, or why there is none."""
    if complaint := found.complaint(number):
        return None, complaint
    return found.entry(number), None
