"""Reads a results file of the driver: the plan it followed, every run, what failed and why.

Invariant: nothing is left out in silence. A cell that an allocator did not complete has a reason; a
line that cannot be read (the last one of a run that was killed) is counted; of a run that is there
twice, after a resume, the last one counts. No claim is made from a part: one failed counted run
fails the allocator's cell. Touched by: the report and whoever reads results.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from . import stats

FORMAT = 1
FEWEST_RUNS = 5  # nothing is ranked from fewer
NOISY = 0.09  # relative MAD of a cell that is flagged
INSENSITIVE = 0.01  # share of a program's time in malloc and free under which it ranks nobody
NOT_RUN, MISSING = "not run", "missing"
_AGAIN = "failed before: "  # how the driver marks a run it did not try again


class RecordError(ValueError):
    """The file is no results file of this format."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """One that was to be measured; `missing` says why it was not."""

    name: str
    label: str
    version: str = ""
    flags: str = ""
    library: str | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload with one number of threads and one value of its sweep."""

    name: str
    workload: str
    program: str
    threads: int | None = None
    x: dict[str, float] = field(default_factory=dict)
    group: str = ""
    argv: tuple[str, ...] = ()
    oversubscribed: bool = False
    missing: str | None = None

    def at(self, axis: str) -> float | None:
        """The cell's place on the axis `threads` or on that of a swept option."""
        return self.threads if axis == "threads" else self.x.get(axis)


@dataclass(frozen=True, slots=True)
class Run:
    """One run; metrics are empty when it failed. Rounds up to 0 are the warm-up."""

    cell: str
    allocator: str
    round: int
    metrics: dict[str, float]
    failure: str | None
    result: dict


@dataclass(frozen=True, slots=True)
class Failure:
    """What an allocator did not complete, with the rounds in which that was seen."""

    cell: str
    allocator: str
    rounds: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Record:
    """Everything of one results file."""

    path: Path
    plan: dict
    allocators: tuple[Allocator, ...]
    cells: tuple[Cell, ...]
    runs: dict[tuple[str, str], tuple[Run, ...]]  # by cell and allocator, in the order of rounds
    counts: dict[tuple[str, str], dict]
    resumes: int
    complete: bool
    unreadable: int

    @cached_property
    def allocator_by_name(self) -> dict[str, Allocator]:
        return {allocator.name: allocator for allocator in self.allocators}

    @cached_property
    def cell_by_name(self) -> dict[str, Cell]:
        return {cell.name: cell for cell in self.cells}

    def counted(self, cell: str, allocator: str) -> list[Run]:
        return [run for run in self.runs.get((cell, allocator), ()) if run.round > 0]

    def problem(self, cell: str, allocator: str) -> str | None:
        """Why there is no number for the allocator in the cell; None when there is one."""
        runs = self.counted(cell, allocator)
        failed = next((run.failure for run in runs if run.failure), None)
        if failed or runs:
            return failed
        found = self.allocator_by_name.get(allocator)
        missing = self.cell_by_name[cell].missing or (found.missing if found else None)
        return f"{MISSING}: {missing}" if missing else NOT_RUN

    def series(self, cell: str, allocator: str, metric: str) -> dict[int, float]:
        """The metric by round; empty when any counted run failed. `time` is seconds per operation
        where the workload counts operations, so that one that runs for a fixed time counts too."""
        if self.problem(cell, allocator):
            return {}
        found = {run.round: _value(run, metric) for run in self.counted(cell, allocator)}
        return {number: value for number, value in found.items() if value is not None}

    def arrays(self, cell: str, allocator: str, key: str) -> list[list[list[float]]]:
        """The curves (rows of [x, y...]) that the counted runs gave under `key`."""
        if self.problem(cell, allocator):
            return []
        found = (run.result.get(key) for run in self.counted(cell, allocator))
        return [rows for rows in found if rows]

    def paired(
        self, cell: str, above: str, below: str, metrics: tuple[str, str]
    ) -> tuple[list[float], list[float]]:
        """Two series of a cell over the rounds that both have."""
        first = self.series(cell, above, metrics[0])
        second = self.series(cell, below, metrics[1])
        rounds = sorted(first.keys() & second.keys())
        return [first[number] for number in rounds], [second[number] for number in rounds]

    def spread(self, cell: str, allocator: str, metric: str = "time") -> float | None:
        """The relative MAD of the counted runs."""
        values = list(self.series(cell, allocator, metric).values())
        return stats.relative_spread(values) if values and stats.median(values) > 0 else None

    def noisy(self, cell: str, allocator: str) -> bool:
        return (self.spread(cell, allocator) or 0) > NOISY

    def few_runs(self, cell: str, allocator: str) -> bool:
        """There are numbers, but too few to rank by."""
        return 0 < len(self.series(cell, allocator, "time")) < FEWEST_RUNS

    def malloc_share(self, cell: str) -> float | None:
        """The part of the program's time that was spent in malloc and free, under glibc."""
        return self.counts.get((cell, "glibc"), {}).get("malloc_share")

    def insensitive(self, cell: str) -> bool:
        share = self.malloc_share(cell)
        return share is not None and share < INSENSITIVE

    def failures(self) -> Iterator[Failure]:
        """Failed runs, warm-up included, in the order of the cells, one for each reason."""
        for cell in self.cells:
            for allocator in self.allocators:
                reasons: dict[str, list[int]] = {}
                for run in self.runs.get((cell.name, allocator.name), ()):
                    if run.failure:
                        reason = run.failure.removeprefix(_AGAIN)
                        reasons.setdefault(reason, []).append(run.round)
                for reason, rounds in reasons.items():
                    yield Failure(cell.name, allocator.name, tuple(rounds), reason)


def _value(run: Run, metric: str) -> float | None:
    if metric != "time":
        found = run.metrics.get(metric)
    else:
        found = run.metrics.get("seconds")
        if found is not None and run.metrics.get("operations", 0) > 0:
            found /= run.metrics["operations"]
    return found if found is None or math.isfinite(found) else None


def read(path: Path) -> Record:
    """Raises RecordError when the file is none of ours; a line cut short is only counted."""
    records, unreadable = _records(path)
    plans = [record for record in records if record["kind"] == "plan"]
    if not plans or plans[0].get("format") != FORMAT:
        raise RecordError(f"{path}: no results file of format {FORMAT}")
    try:
        return _assemble(path, plans[0], records, unreadable)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: a record is not as it should be: {error!r}") from None


def _records(path: Path) -> tuple[list[dict], int]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from None
    records, unreadable = [], 0
    for line in filter(str.strip, lines):
        record = _parse(line)
        if record is None:
            unreadable += 1
            # A resumed run may have written its first record behind one that was cut short.
            record = _parse(line[line.rfind('{"kind"') :]) if '{"kind"' in line else None
        if record is not None:
            records.append(record)
    return records, unreadable


def _parse(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "kind" in record else None


def _assemble(path: Path, plan: dict, records: list[dict], unreadable: int) -> Record:
    runs: dict[tuple[str, str], dict[int, Run]] = {}
    counts: dict[tuple[str, str], dict] = {}
    for record in records:
        if record["kind"] not in ("run", "count"):
            continue
        place = record["cell"], record["allocator"]
        if record["kind"] == "count":
            counts[place] = record
        else:
            runs.setdefault(place, {})[record["round"]] = _run(record)
    ends = [record for record in records if record["kind"] in ("end", "resume")]
    return Record(
        path=path,
        plan=plan,
        allocators=tuple(_allocator(entry) for entry in plan["allocators"]),
        cells=tuple(_cell(entry) for entry in plan["cells"]),
        runs={place: tuple(found[n] for n in sorted(found)) for place, found in runs.items()},
        counts=counts,
        resumes=sum(record["kind"] == "resume" for record in records),
        complete=bool(ends) and bool(ends[-1].get("complete")),
        unreadable=unreadable,
    )


def _run(record: dict) -> Run:
    numbers = (record.get("metrics") or {}).items()
    metrics = {key: float(value) for key, value in numbers if value is not None}
    return Run(
        record["cell"],
        record["allocator"],
        int(record["round"]),
        metrics,
        record.get("failure"),
        record.get("result") or {},
    )


def _allocator(entry: dict) -> Allocator:
    flags = entry.get("flags") or ""
    return Allocator(
        name=entry["name"],
        label=entry.get("label") or entry["name"],
        version=entry.get("version") or "",
        flags=" ".join(flags) if isinstance(flags, list) else str(flags),
        library=entry.get("library"),
        missing=entry.get("missing"),
    )


def _cell(entry: dict) -> Cell:
    return Cell(
        name=entry["cell"],
        workload=entry["workload"],
        program=entry["program"],
        threads=entry.get("threads"),
        x=entry.get("x") or {},
        group=entry.get("group") or "",
        argv=tuple(map(str, entry.get("argv") or ())),
        oversubscribed=bool(entry.get("oversubscribed")),
        missing=entry.get("missing"),
    )


def newest(folder: Path, plan: str | None = None) -> Path:
    """The newest results file of the plan, or of any. Raises RecordError when there is none."""
    found = [path for path in folder.glob(f"{plan or '*'}/*.jsonl") if path.is_file()]
    if not found:
        raise RecordError(f"{folder}: no results{f' of plan {plan}' if plan else ''}")
    return max(found, key=lambda path: (path.stem, path))
