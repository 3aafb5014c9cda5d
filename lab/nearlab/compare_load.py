"""Reads a file of results for a comparison: `resolve` finds it by name, `load` reads it.

Invariant: warm-up does not count; one failed run spoils its series; a file that was cut off in its
last line is incomplete, one that is broken elsewhere is refused with its line.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from . import places

_FORMAT = 1
Place = tuple[str, str, str]  # kind of record, cell, allocator


class LoadError(ValueError):
    """No such results, or they cannot be read; says which and where."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of one file."""

    path: Path
    plan: dict
    records: dict[Place, list[dict]]
    complete: bool

    @property
    def cells(self) -> dict[str, dict]:
        return {cell["cell"]: cell for cell in self.plan["cells"]}

    @property
    def allocators(self) -> dict[str, dict]:
        return {allocator["name"]: allocator for allocator in self.plan["allocators"]}

    def work(self, cell: str) -> list[str]:
        """The options of a cell's program; of files only the names."""
        return [Path(word).name if "/" in word else word for word in self.cells[cell]["argv"][1:]]

    def series(self, cell: str, allocator: str, metric: str) -> dict[int, float]:
        """The metric by round, where it is known; nothing when any run failed."""
        if self.failure("run", cell, allocator):
            return {}
        runs = self.records["run", cell, allocator]
        values = {run["round"]: run["metrics"].get(metric) for run in runs}
        return {number: value for number, value in values.items() if value is not None}

    def counts(self, kind: str, cell: str, allocator: str, key: str) -> list:
        """What the counting runs have under `key`; they may know one number and not another."""
        found = [record.get(key) for record in self.records.get((kind, cell, allocator), [])]
        return [value for value in found if value is not None]

    def tried(self, kind: str, cell: str, allocator: str) -> bool:
        return (kind, cell, allocator) in self.records or (
            kind == "run" and self._missing(cell, allocator) is not None
        )

    def failure(self, kind: str, cell: str, allocator: str) -> str | None:
        """Why there is no number, or not a whole series; None when there is."""
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
        """The part of the time that the cell's program spends in malloc and free."""
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
    """The results in a file. LoadError when it is none."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path}: cannot be read: {error}") from None
    plan: dict | None = None
    by_place: dict[Place, dict[object, dict]] = defaultdict(dict)
    complete = False
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kind = record["kind"]
            if plan is None:
                plan = _checked_plan(record)
            elif kind == "run" and record["round"] > 0:
                by_place[kind, record["cell"], record["allocator"]][record["round"]] = record
            elif kind in ("count", "instructions"):
                runs = by_place[kind, record["cell"], record["allocator"]]
                runs[len(runs)] = record
            elif kind == "end":
                complete = record["complete"]
        except (ValueError, LookupError, TypeError) as error:
            if number == len(lines) > 1:
                break  # an interruption cut it off
            raise LoadError(f"{path}:{number}: not a line of results: {error}") from None
    if plan is None:
        raise LoadError(f"{path}: empty")
    records = {place: list(runs.values()) for place, runs in by_place.items()}
    return Measured(path, plan, records, complete)


def _checked_plan(record: dict) -> dict:
    if record["kind"] != "plan" or record["format"] != _FORMAT:
        raise ValueError(f"a plan of format {_FORMAT} was expected")
    if not all("cell" in cell and "argv" in cell for cell in record["cells"]):
        raise ValueError("a cell without a name or a command")
    if not all("name" in allocator for allocator in record["allocators"]):
        raise ValueError("an allocator without a name")
    return record


def results_of(plan: str) -> list[Path]:
    """The result files of a plan, the newest first."""
    return sorted((places.plan_results() / plan).glob("*.jsonl"), reverse=True)


def resolve(text: str) -> Path:
    """A file, or the newest of a plan by its name, or with `~N` the Nth before the newest."""
    path = Path(text)
    if path.is_file():
        return path
    plan, tilde, back = text.partition("~")
    if tilde and not back.isdecimal():
        raise LoadError(f"{text}: a number is wanted after ~")
    found = results_of(plan) if plan else []
    if not found:
        raise LoadError(f"{text}: neither a file nor a plan that has results")
    if int(back or 0) >= len(found):
        raise LoadError(f"{text}: the plan has {len(found)} results")
    return found[int(back or 0)]
