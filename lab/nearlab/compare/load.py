"""Reads a file of results for a comparison.

Invariant: what counts is what counts in a report (results/record.py): warm-up does not, one failed
run invalidates its series, and runs that other work disturbed count only where too few others are
left. A file that was cut off is reported as incomplete.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearlab.results import record
from nearlab.results.record import NOT_RUN, Record


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of one file."""

    record: Record

    @property
    def path(self) -> Path:
        return self.record.path

    @property
    def plan(self) -> dict[str, Any]:
        return self.record.plan

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        return {cell["cell"]: cell for cell in self.plan["cells"]}

    @property
    def allocators(self) -> dict[str, dict[str, Any]]:
        return {allocator["name"]: allocator for allocator in self.plan["allocators"]}

    def work(self, cell: str) -> list[str]:
        """The options of a cell's program; paths are reduced to file names."""
        return [Path(word).name if "/" in word else word for word in self.cells[cell]["argv"][1:]]

    def counted(self, kind: str, cell: str, allocator: str, key: str) -> Any:
        """The counting run's value under `key`; None if there is none."""
        return self.record.extras[kind].get((cell, allocator), {}).get(key)

    def tried(self, kind: str, cell: str, allocator: str) -> bool:
        if kind == "run":
            return self.record.problem(cell, allocator) != NOT_RUN
        return (cell, allocator) in self.record.extras[kind]

    def failure(self, kind: str, cell: str, allocator: str) -> str | None:
        """Why there is no number, or no complete series; None if there is one."""
        missing = self.allocators[allocator].get("missing") or self.cells[cell].get("missing")
        if missing or kind != "run":
            found: str | None = missing or self.counted(kind, cell, allocator, "failure")
            return found
        runs = self.record.counted(cell, allocator)
        problem = self.record.problem(cell, allocator)
        failed = sum(run.failure is not None for run in runs)
        return f"{problem} ({failed} of {len(runs)} runs)" if failed and len(runs) > 1 else problem


def load(path: Path) -> Measured:
    """Reads the results in a file. Raises RecordError if it holds none."""
    return Measured(record.read(path))
