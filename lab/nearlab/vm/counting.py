"""How a run's accesses are counted: QEMU's plugin, the step that calibrates it, what it wrote.

Invariant: a case that is counted runs its workload with marks and pinned threads, and its counts
are read, or it is said why not; without the plugin it runs plain, and has no counts.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from .. import places
from .cases import Case
from .guest import Step
from .machine import Plugin
from .topology import Topology

PLUGIN = "libnearcount.so"
_CALIBRATE = "calibrate"
_MARKED = ("--mark", "--pin", "spread")


@dataclass(frozen=True, slots=True)
class Counter:
    """Of one run. `out` is None where nothing is counted."""

    topology: Topology
    out: Path | None

    @classmethod
    def of(cls, case: Case, topology: Topology, folder: Path) -> "Counter":
        counted = case.keys.counted and places.vm_program(PLUGIN).is_file()
        return cls(topology, folder / "counts.json" if counted else None)

    def plugin(self) -> Plugin | None:
        if self.out is None:
            return None
        return Plugin(places.vm_program(PLUGIN), {"out": str(self.out), "cpus": self._cpus()})

    def before(self) -> list[Step]:
        """The steps that run before the counted one."""
        return [Step(_CALIBRATE, places.vm_program(_CALIBRATE))] if self.out else []

    def arguments(self) -> list[str]:
        """What the workload is told besides."""
        return list(_MARKED) if self.out else []

    def read(self, regions: int) -> list[tuple[dict | None, str | None]]:
        """Of each of so many marked regions the counts, or why there are none; neither where
        nothing is counted."""
        if self.out is None:
            return [(None, None)] * regions
        try:
            found = json.loads(self.out.read_text(encoding="utf-8"))
            marked = found["regions"]
        except FileNotFoundError:
            return [(None, "the plugin wrote no counts")] * regions
        except (ValueError, KeyError, TypeError) as error:
            return [(None, f"the plugin's counts cannot be read: {error}")] * regions
        if len(marked) != regions:
            complaint = f"the plugin counted {len(marked)} regions, expected {regions}"
            return [(None, complaint)] * regions
        return [({**found, "regions": [region]}, None) for region in marked]

    def _cpus(self) -> str:
        """`CPU:NODE+CPU:NODE...`"""
        nodes = self.topology.node_of_cpu
        return "+".join(f"{cpu}:{node}" for cpu, node in enumerate(nodes))
