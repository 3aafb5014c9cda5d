"""Reads a results file of the driver: the plan it followed, every run, what failed and why.

Invariant: nothing is omitted silently. A cell that an allocator did not complete has a reason. If a
run occurs twice after a resume, the last one counts. One failed counted run fails the allocator's
cell.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from nearlab.results import journal, stats
from nearlab.results.journal import JournalError
from nearlab.results.stats import FEWEST_RUNS

LIMIT = "limit"  # a bound, not an allocator
NOISY = 0.09  # relative MAD of a cell that is flagged
INSENSITIVE = 0.01  # share of time in malloc and free; a program below it ranks no allocator
HARNESS = 0.5  # the harness's share of the baseline's instructions; above it a row ranks nobody
NOT_RUN, MISSING = "not run", "missing"
EMPTY_HEAP_KIB = 256  # a heap below it counts as this much: it fits in what a process has anyway
SMALL_HEAP_KIB = 4096  # below it, ratios of heaps are those of constants
# The groups of rows, which are never averaged together.
ORIGINS = {"published": "published workloads", "program": "real programs", "own": "own workloads"}
AGAIN = "failed before: "  # the driver's mark of a run that it did not try again


class RecordError(ValueError):
    """The file is no results file, or holds too little."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """An allocator of the plan; if it could not be measured, `missing` says why."""

    name: str
    label: str
    version: str = ""
    flags: str = ""
    library: str | None = None
    missing: str | None = None
    group: str = ""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload with one number of threads and one value of its sweep."""

    name: str
    workload: str
    program: str
    threads: int | None = None
    x: dict[str, float | str] = field(default_factory=dict)
    group: str = ""
    argv: tuple[str, ...] = ()
    oversubscribed: bool = False
    missing: str | None = None
    origin: str = "own"
    tuned: bool = False  # the allocator under development was tuned by it

    def at(self, axis: str) -> float | str | None:
        """Returns the cell's place on the axis: its threads, or its value of a swept option."""
        return self.threads if axis == "threads" else self.x.get(axis)


@dataclass(frozen=True, slots=True)
class Run:
    """A run; its metrics are empty if it failed. Rounds up to 0 are the warm-up."""

    cell: str
    allocator: str
    round: int
    metrics: dict[str, float]
    failure: str | None
    result: dict[str, Any]
    disturbed: str | None = None  # what other work the machine did
    probe_s: float | None = None  # the machine's speed around the run


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of an allocator in a cell, with the rounds or the kinds of extras (count,
    instructions, timeline) in which it failed."""

    cell: str
    allocator: str
    rounds: tuple[int | str, ...]
    reason: str


@dataclass(frozen=True)
class Record:
    """The contents of one results file."""

    path: Path
    plan: dict[str, Any]
    allocators: tuple[Allocator, ...]
    cells: tuple[Cell, ...]
    runs: dict[tuple[str, str], tuple[Run, ...]]  # by cell and allocator, in the order of rounds
    extras: dict[
        str, dict[tuple[str, str], dict[str, Any]]
    ]  # by kind: count, instructions, timeline
    resumes: int
    complete: bool
    empty_kib: dict[str, float]  # by allocator: the memory of a process that does nothing

    @cached_property
    def allocator_by_name(self) -> dict[str, Allocator]:
        return {allocator.name: allocator for allocator in self.allocators}

    @cached_property
    def cell_by_name(self) -> dict[str, Cell]:
        return {cell.name: cell for cell in self.cells}

    def own_subject(self) -> str | None:
        """The allocator that is judged if none is named: nearmalloc, or without it the only one
        that the user named, of those that completed a cell."""
        groups = {
            one.name: one.group
            for one in self.allocators
            if any(self.problem(cell.name, one.name) is None for cell in self.cells)
        }
        if "nearmalloc" in groups:
            return "nearmalloc"
        ours = [name for name, group in groups.items() if group == "ours"]
        return ours[0] if len(ours) == 1 else None

    def counted(self, cell: str, allocator: str) -> list[Run]:
        return [run for run in self.runs.get((cell, allocator), ()) if run.round > 0]

    def _kept(self, cell: str, allocator: str) -> list[Run]:
        """The counted runs without the disturbed ones, if enough are left; else all."""
        runs = self.counted(cell, allocator)
        calm = [run for run in runs if run.disturbed is None]
        return calm if len(calm) >= FEWEST_RUNS else runs

    def busy(self, cell: str, allocator: str) -> bool:
        """True if runs that other work disturbed are among those that count."""
        return any(run.disturbed for run in self._kept(cell, allocator))

    def disturbed(self) -> list[Run]:
        """All counted runs that other work disturbed."""
        every = (self.counted(*place) for place in self.runs)
        return [run for runs in every for run in runs if run.disturbed]

    def speeds(self) -> list[float]:
        """The probe beside each counted run, relative to that before the first run."""
        first = self.plan.get("probe_s")
        counted = (run for place in self.runs for run in self.counted(*place))
        return [run.probe_s / first for run in counted if first and run.probe_s]

    def problem(self, cell: str, allocator: str) -> str | None:
        """Why there is no number for the allocator in the cell; None when there is one."""
        runs = self.counted(cell, allocator)
        failed = next((run.failure for run in runs if run.failure), None)
        if failed or runs:
            return failed
        found = self.allocator_by_name.get(allocator)
        missing = self.cell_by_name[cell].missing or (found.missing if found else None)
        return f"{MISSING}: {missing}" if missing else NOT_RUN

    def failed(self, cell: str, allocator: str) -> bool:
        return any(run.failure for run in self.counted(cell, allocator))

    def series(
        self, cell: str, allocator: str, metric: str, *, all_runs: bool = False
    ) -> dict[int, float]:
        """The metric by round; empty when any counted run failed. `time` is seconds per operation
        where the workload counts operations, so that one that runs for a fixed time counts too.
        `heap_kib` is the peak memory above that of an empty process under the same allocator.
        `work_s` is the seconds of all threads together, running or not. [Podolsky13]
        With `all_runs` also those that other work disturbed."""
        if self.problem(cell, allocator):
            return {}
        empty = self.empty_kib.get(allocator, 0.0)
        threads = self.cell_by_name[cell].threads if metric == "work_s" else None
        runs = self.counted(cell, allocator) if all_runs else self._kept(cell, allocator)
        found = {run.round: _value(run, metric, empty, threads) for run in runs}
        return {number: value for number, value in found.items() if value is not None}

    def arrays(self, cell: str, allocator: str, key: str) -> list[list[list[float]]]:
        """The curves (rows of [x, y...]) that the counted runs gave under `key`."""
        if self.problem(cell, allocator):
            return []
        found = (run.result.get(key) for run in self.counted(cell, allocator))
        return [rows for rows in found if rows]

    def paired(
        self, cell: str, above: str, below: str, metrics: tuple[str, str], *, all_runs: bool = False
    ) -> tuple[list[float], list[float]]:
        """Two series of a cell over the rounds that both have."""
        first = self.series(cell, above, metrics[0], all_runs=all_runs)
        second = self.series(cell, below, metrics[1], all_runs=all_runs)
        rounds = sorted(first.keys() & second.keys())
        return [first[number] for number in rounds], [second[number] for number in rounds]

    def paired_enough(
        self, cell: str, above: str, below: str, metrics: tuple[str, str]
    ) -> tuple[list[float], list[float]]:
        """As `paired`; over all runs if the two were calm in different rounds, so that the calm
        ones give no interval."""
        pair = self.paired(cell, above, below, metrics)
        if len(pair[0]) < FEWEST_RUNS:
            pair = self.paired(cell, above, below, metrics, all_runs=True)
        return pair

    def spread(self, cell: str, allocator: str, metric: str = "time") -> float | None:
        """The relative MAD of the counted runs."""
        values = list(self.series(cell, allocator, metric).values())
        return stats.relative_spread(values) if values and stats.median(values) > 0 else None

    def noisy(self, cell: str, allocator: str) -> bool:
        return (self.spread(cell, allocator) or 0) > NOISY

    def few_runs(self, cell: str, allocator: str) -> bool:
        """True if there are numbers, but too few for ranks."""
        return 0 < len(self.series(cell, allocator, "time")) < FEWEST_RUNS

    def malloc_share(self, cell: str) -> float | None:
        """The part of the program's time that was spent in malloc and free, under glibc."""
        return self.extras["count"].get((cell, "glibc"), {}).get("malloc_share")

    def system_calls(self, cell: str, allocator: str) -> dict[str, int] | None:
        """The counting run's calls of the kernel by name; None if they were not counted."""
        count = self.extras["count"].get((cell, allocator))
        if count is None or self.problem(cell, allocator):
            return None
        return count.get("syscalls") or None  # empty when counting failed

    def insensitive(self, cell: str) -> bool:
        share = self.malloc_share(cell)
        return share is not None and share < INSENSITIVE

    def harness_share(self, cell: str) -> float | None:
        """The part of a workload's instructions that are not malloc's, under the baseline: no
        allocator can take less than this of the baseline's instructions."""
        counts = self.extras["count"].items()
        shares = (found.get("harness_share") for (name, _), found in counts if name == cell)
        return next((share for share in shares if share is not None), None)

    def harness_failure(self, cell: str) -> str | None:
        """Why this part is not known although it was to be counted."""
        counts = self.extras["count"].items()
        reasons = (found.get("harness_failure") for (name, _), found in counts if name == cell)
        return next((reason for reason in reasons if reason), None)

    def harness(self, cell: str) -> bool:
        """True if most of what is timed in the cell is the harness."""
        share = self.harness_share(cell)
        return share is not None and share > HARNESS

    def failures(self) -> Iterator[Failure]:
        """Failed runs, warm-up and counting included, in the order of the cells, one for each
        reason."""
        for cell in self.cells:
            for allocator in self.allocators:
                place = cell.name, allocator.name
                reasons: dict[str, list[int | str]] = {}
                for number, failure in self._tried(place):
                    if failure:
                        reasons.setdefault(failure.removeprefix(AGAIN), []).append(number)
                for reason, rounds in reasons.items():
                    yield Failure(*place, tuple(rounds), reason)

    def _tried(self, place: tuple[str, str]) -> Iterator[tuple[int | str, str | None]]:
        yield from ((run.round, run.failure) for run in self.runs.get(place, ()))
        for kind, found in self.extras.items():
            if place in found:
                yield kind, found[place].get("failure")


def _value(run: Run, metric: str, empty_kib: float, threads: int | None) -> float | None:
    if metric == "work_s":
        found = run.metrics.get("seconds") if threads else None
        return None if found is None else found * (threads or 1)
    if metric == "heap_kib":
        found = run.metrics.get("memory_kib")
        if found is not None and empty_kib:
            found = max(found - empty_kib, EMPTY_HEAP_KIB)
    elif metric != "time":
        found = run.metrics.get(metric)
    else:
        found = run.metrics.get("seconds")
        if found is not None and run.metrics.get("operations", 0) > 0:
            found /= run.metrics["operations"]
    return found if found is None or math.isfinite(found) else None


def read(path: Path) -> Record:
    """Reads a file. Raises RecordError if it is no results file; a partial last line is ignored."""
    try:
        records = journal.read_result(path)
        return _assemble(path, records[0], records)
    except JournalError as error:
        raise RecordError(str(error)) from None
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: a record is not as it should be: {error!r}") from None


def _assemble(path: Path, plan: dict[str, Any], records: list[dict[str, Any]]) -> Record:
    runs: dict[tuple[str, str], dict[int, Run]] = {}
    kinds = "count", "instructions", "timeline"
    extras: dict[str, dict[tuple[str, str], dict[str, Any]]] = {kind: {} for kind in kinds}
    for record in records:
        if record["kind"] == "run":
            place = record["cell"], record["allocator"]
            runs.setdefault(place, {})[record["round"]] = _run(record)
        elif record["kind"] in extras:
            extras[record["kind"]][record["cell"], record["allocator"]] = record
    empties = [record for record in records if record["kind"] == "empty"]
    ends = [record for record in records if record["kind"] in ("end", "resume")]
    return Record(
        path=path,
        plan=plan,
        allocators=tuple(_allocator(entry) for entry in plan["allocators"]),
        cells=tuple(_cell(entry) for entry in plan["cells"]),
        runs={place: tuple(found[n] for n in sorted(found)) for place, found in runs.items()},
        extras=extras,
        resumes=sum(record["kind"] == "resume" for record in records),
        complete=bool(ends) and bool(ends[-1].get("complete")),
        empty_kib={
            one["allocator"]: stats.median(one["memory_kib"])
            for one in empties
            if one["memory_kib"]
        },
    )


def _run(record: dict[str, Any]) -> Run:
    numbers = (record.get("metrics") or {}).items()
    metrics = {key: float(value) for key, value in numbers if value is not None}
    if "seconds_raw" in metrics:  # an earlier version scaled the seconds by the speed probe
        metrics["seconds"] = metrics.pop("seconds_raw")
    return Run(
        record["cell"],
        record["allocator"],
        int(record["round"]),
        metrics,
        record.get("failure"),
        record.get("result") or {},
        record.get("disturbed"),
        record.get("probe_s"),
    )


def _allocator(entry: dict[str, Any]) -> Allocator:
    flags = entry.get("flags") or ""
    return Allocator(
        name=entry["name"],
        label=entry.get("label") or entry["name"],
        version=entry.get("version") or "",
        flags=" ".join(flags) if isinstance(flags, list) else str(flags),
        library=entry.get("library"),
        missing=entry.get("missing"),
        group=entry.get("group") or "",
        environment=entry.get("environment") or {},
    )


def _cell(entry: dict[str, Any]) -> Cell:
    default = "program" if entry["program"].startswith("program:") else "own"
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
        origin=entry.get("origin") or default,  # a result of an earlier version names none
        tuned=bool(entry.get("tuned")),
    )
