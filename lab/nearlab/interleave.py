"""Runs every case under every allocator, interleaved, and keeps every run.

Within a round each case runs once under each allocator, in an order in which everyone takes every
place and follows everyone else, so that neither drift of the machine nor the run before favours
one (Williams 1949, Experimental designs balanced for the estimation of residual effects). Before
each run this process touches memory and gives it back: on a virtual machine the first touch of a
page that the host took away costs ten times the usual, and whoever meets it is chance. The first
round warms up files and caches and is not counted. Invariant: every run is in the JSON lines,
failures and warm-up included; a run that another malloc served is a failure. Source: DESIGN, the
lab.
"""

import contextlib
import ctypes
import json
import mmap
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from . import measure
from .measure import Sample
from .peers import Allocator


def default_metrics(sample: Sample) -> dict[str, float]:
    return {"seconds": sample.wall_s, "cpu_s": sample.cpu_s, "memory_kib": sample.peak_total_kib}


@dataclass(frozen=True, slots=True)
class Case:
    """One program to run. `metrics` reads the numbers out of a run; it may raise ValueError."""

    name: str
    argv: Sequence[str | Path]
    metrics: Callable[[Sample], dict[str, float]] = default_metrics
    env: dict[str, str] = field(default_factory=dict)
    timeout: float = 120
    tree: bool = False
    stdin: str | bytes | Path | None = None
    # What glibc must be given to serve it: a program linked to another malloc gets it preloaded.
    glibc_preload: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one case. Metrics are empty when it failed."""

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
        """The metric run by run; empty when any counted run failed: no claim from a part."""
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


def balanced(items: Sequence, turn: int) -> list:
    """An order of `items`. In as many turns as there are items everyone takes every place, and (in
    twice as many if their number is odd) everyone comes right after everyone else equally often."""
    count = len(items)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    order = [items[(step + turn) % count] for step in zigzag]
    return order[::-1] if count % 2 and turn // count % 2 else order


def touch_memory(mib: int = 384) -> None:
    """Writes to fresh memory and gives it back, so that the next process gets pages that are near.
    384 MiB is more than any row of the baseline uses."""
    size = mib << 20
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with contextlib.suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.c_char.from_buffer(memory)
        ctypes.memset(ctypes.addressof(start), 1, size)
        del start


def machine() -> dict:
    """What the numbers depend on and the repository does not say."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    huge_pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_kib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024,
        "kernel": platform.release(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "huge_pages": huge_pages.read_text().strip() if huge_pages.exists() else "none",
        "load": os.getloadavg()[0],
    }


def interleave(
    cases: Sequence[Case],
    allocators: Sequence[Allocator],
    *,
    rounds: int,
    raw: Path,
    warm_up: bool = True,
    console: Console | None = None,
    title: str = "measuring",
) -> Results:
    """Runs cases x available allocators x rounds; appends everything to the JSON lines in `raw`."""
    available = [allocator for allocator in allocators if allocator.available]
    if not cases or not available or rounds < 1:
        raise ValueError("nothing to run")
    raw.parent.mkdir(parents=True, exist_ok=True)
    numbers = range(0 if warm_up else 1, rounds + 1)
    runs = []
    with raw.open("a") as lines, _progress(console) as progress:
        _write(lines, _header(title, cases, allocators, rounds))
        task = progress.add_task(title, total=len(numbers) * len(cases) * len(available))
        for number in numbers:
            for index, case in enumerate(cases):
                for allocator in balanced(available, number + index):
                    label = f"round {number}/{rounds} {case.name}, {allocator.label}"
                    progress.update(task, description=label)
                    touch_memory()
                    run = run_once(case, allocator, number)
                    runs.append(run)
                    _write(lines, _record(run))
                    progress.advance(task)
    return Results(runs, allocators)


def run_once(case: Case, allocator: Allocator, number: int) -> Run:
    """One run; whatever goes wrong in the child is the run's failure."""
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


class _Lines:
    """Progress for a log: a line every half minute instead of a moving bar."""

    def __init__(self):
        self._done, self._total, self._label = 0, 1, ""
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        pass

    def add_task(self, description: str, total: int) -> int:
        self._label, self._total = description, total
        return 0

    def update(self, _: int, description: str) -> None:
        self._label = description

    def advance(self, _: int) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._shown < 30:
            return
        self._shown = now
        left = (now - self._started) / self._done * (self._total - self._done)
        print(f"{self._done}/{self._total}, {left:.0f} s left: {self._label}", file=sys.stderr)


def _progress(console: Console | None):
    console = console or Console(stderr=True)
    if not console.is_terminal:
        return _Lines()
    return Progress(
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
