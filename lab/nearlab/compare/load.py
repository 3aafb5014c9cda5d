"""Reads a file of results for a comparison.

Invariant: warm-up does not count; one failed run invalidates its series; a file that was cut off
is reported as incomplete.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearlab.results import journal

Place = tuple[str, str, str]  # kind of record, cell, allocator


class LoadError(ValueError):
    """A results file does not have the expected content."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of one file."""

    path: Path
    plan: dict[str, Any]
    records: dict[Place, list[dict[str, Any]]]
    complete: bool

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        return {cell["cell"]: cell for cell in self.plan["cells"]}

    @property
    def allocators(self) -> dict[str, dict[str, Any]]:
        return {allocator["name"]: allocator for allocator in self.plan["allocators"]}

    def work(self, cell: str) -> list[str]:
        """The options of a cell's program; paths are reduced to file names."""
        return [Path(word).name if "/" in word else word for word in self.cells[cell]["argv"][1:]]

    def series(self, cell: str, allocator: str, metric: str) -> dict[int, float]:
        """The metric by round, where it is known; empty if any run failed."""
        if self.failure("run", cell, allocator):
            return {}
        runs = self.records["run", cell, allocator]
        values = {run["round"]: run["metrics"].get(metric) for run in runs}
        return {number: value for number, value in values.items() if value is not None}

    def busy(self, cell: str, allocator: str) -> bool:
        """True if other work disturbed half of the runs or more."""
        runs = self.records.get(("run", cell, allocator), [])
        return bool(runs) and 2 * sum(bool(run.get("disturbed")) for run in runs) >= len(runs)

    def counts(self, kind: str, cell: str, allocator: str, key: str) -> list[Any]:
        """The counting runs' values under `key`; a run may have one number and lack another."""
        found = [record.get(key) for record in self.records.get((kind, cell, allocator), [])]
        return [value for value in found if value is not None]

    def tried(self, kind: str, cell: str, allocator: str) -> bool:
        return (kind, cell, allocator) in self.records or (
            kind == "run" and self._missing(cell, allocator) is not None
        )

    def failure(self, kind: str, cell: str, allocator: str) -> str | None:
        """Why there is no number, or no complete series; None if there is one."""
        missing = self._missing(cell, allocator)
        if missing:
            return missing
        records = self.records.get((kind, cell, allocator), [])
        failures = [record["failure"] for record in records if record.get("failure")]
        if failures:
            some = f" ({len(failures)} of {len(records)} runs)" if len(records) > 1 else ""
            return f"{failures[0]}{some}"
        return None if records else "not measured"

    def malloc_share(self, cell: str) -> float | None:
        """The share of its time that the cell's program spends in malloc and free."""
        found = [
            record.get("malloc_share")
            for (kind, name, _), records in self.records.items()
            if kind == "count" and name == cell
            for record in records
        ]
        return next((share for share in found if share is not None), None)

    def _missing(self, cell: str, allocator: str) -> str | None:
        return self.allocators[allocator].get("missing") or self.cells[cell].get("missing")


def load(path: Path) -> Measured:
    """Reads the results in a file. Raises JournalError or LoadError if it holds none."""
    plan, *records = journal.read_result(path)
    by_place: dict[Place, dict[object, dict[str, Any]]] = defaultdict(dict)
    complete = False
    try:
        _check(plan)
        for record in records:
            kind = record["kind"]
            if kind == "run" and record["round"] > 0:
                by_place[kind, record["cell"], record["allocator"]][record["round"]] = record
            elif kind in ("count", "instructions"):
                runs = by_place[kind, record["cell"], record["allocator"]]
                runs[len(runs)] = record
            elif kind in ("end", "resume"):
                complete = bool(record.get("complete"))
    except (ValueError, LookupError, TypeError) as error:
        raise LoadError(f"{path}: a record is not as it should be: {error!r}") from None
    found = {place: list(runs.values()) for place, runs in by_place.items()}
    return Measured(path, plan, found, complete)


def _check(plan: dict[str, Any]) -> None:
    if not all("cell" in cell and "argv" in cell for cell in plan["cells"]):
        raise ValueError("a cell without a name or a command")
    if not all("name" in allocator for allocator in plan["allocators"]):
        raise ValueError("an allocator without a name")
