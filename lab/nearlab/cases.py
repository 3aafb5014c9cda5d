"""Runs the baseline's cases under every allocator, interleaved, and keeps every run.

The first round warms up files and caches and is not counted. Invariant: every run is in the JSON
lines, failures and warm-up included; a run that another malloc served is a failure.
Thread-safety: one thread (the baseline).
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from . import measure
from .interleave import machine, schedule, touch_memory
from .measure import Sample
from .peers import Allocator
from .progress import Watch

_LINE_EVERY_S = 30.0  # between two lines of progress when stderr is no terminal


def default_metrics(sample: Sample) -> dict[str, float]:
    return {"seconds": sample.wall_s, "cpu_s": sample.cpu_s, "memory_kib": sample.peak_total_kib}


@dataclass(frozen=True, slots=True)
class Case:
    """One program to run. `metrics` extracts the numbers of a run; it may raise ValueError."""

    name: str
    argv: Sequence[str | Path]
    metrics: Callable[[Sample], dict[str, float]] = default_metrics
    env: dict[str, str] = field(default_factory=dict)
    timeout: float = 120
    tree: bool = False
    stdin: str | bytes | Path | None = None
    # Preloaded in runs under glibc, for a program that is linked to another malloc.
    glibc_preload: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one case. `metrics` is empty if the run failed."""

    case: str
    allocator: str
    round: int  # 0 is the warm-up
    metrics: dict[str, float]
    failure: str | None
    sample: Sample


class Results:
    """The counted runs, by case and allocator."""

    def __init__(self, runs: Iterable[Run], allocators: Sequence[Allocator]):
        self.runs = list(runs)
        self.allocators = list(allocators)

    def series(self, case: str, allocator: str, metric: str) -> list[float]:
        """The metric, run by run. Empty if any counted run failed: a part supports no claim."""
        runs = self._counted(case, allocator)
        if any(run.failure for run in runs):
            return []
        return [run.metrics[metric] for run in runs if metric in run.metrics]

    def failures(self, case: str, allocator: str) -> list[str]:
        return [run.failure for run in self._counted(case, allocator) if run.failure]

    def cases(self) -> list[str]:
        return list(dict.fromkeys(run.case for run in self.runs))

    def _counted(self, case: str, allocator: str) -> list[Run]:
        found = [
            run
            for run in self.runs
            if run.case == case and run.allocator == allocator and run.round > 0
        ]
        return sorted(found, key=lambda run: run.round)


def measure_all(
    cases: Sequence[Case],
    allocators: Sequence[Allocator],
    *,
    rounds: int,
    raw: Path,
    warm_up: bool = True,
    title: str = "measuring",
) -> Results:
    """Runs cases x available allocators x rounds; appends everything to the JSON lines in `raw`."""
    available = [allocator for allocator in allocators if allocator.available]
    if not cases or not available or rounds < 1:
        raise ValueError("nothing to run")
    raw.parent.mkdir(parents=True, exist_ok=True)
    steps = schedule(cases, available, range(0 if warm_up else 1, rounds + 1))
    runs = []
    with raw.open("a") as lines, Watch(steps, line_every_s=_LINE_EVERY_S) as watch:
        _write(lines, _header(title, cases, allocators, rounds))
        for step in steps:
            watch.before(step)
            touch_memory()
            run = run_once(step.case, step.allocator, step.round)
            runs.append(run)
            _write(lines, _record(run))
            watch.after(step, run.failure or f"{run.sample.wall_s:.2f} s")
    return Results(runs, allocators)


def run_once(case: Case, allocator: Allocator, number: int) -> Run:
    """Does one run; any error in the child is recorded as the run's failure."""
    preload = allocator.library or case.glibc_preload
    sample = measure.run_child(
        case.argv,
        preload=preload,
        env=dict(allocator.environment) | case.env,
        timeout=case.timeout,
        stdin=case.stdin,
        tree=case.tree,
    )
    failure = sample.failure()
    metrics: dict[str, float] = {}
    if failure is None and sample.served_by != allocator.name:
        failure = f"served by {sample.served_by}"
    if failure is None:
        try:
            metrics = case.metrics(sample)
        except (ValueError, LookupError) as error:
            failure = f"unreadable result: {error}"
    return Run(case.name, allocator.name, number, metrics, failure, sample)


def _header(
    title: str, cases: Sequence[Case], allocators: Sequence[Allocator], rounds: int
) -> dict:
    return {
        "kind": "start",
        "title": title,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "rounds": rounds,
        "allocators": [allocator.to_json() for allocator in allocators],
        "cases": {case.name: [str(word) for word in case.argv] for case in cases},
    }


def _record(run: Run) -> dict:
    record = {
        "kind": "run",
        "case": run.case,
        "allocator": run.allocator,
        "round": run.round,
        "metrics": run.metrics,
        "failure": run.failure,
        "sample": run.sample.to_json(),
    }
    if run.failure:
        record |= {"stdout": run.sample.stdout[-2000:], "stderr": run.sample.stderr[-2000:]}
    return record


def _write(lines, record: dict) -> None:
    lines.write(json.dumps(record) + "\n")
    lines.flush()
