"""Memory after a peak: the workload after_peak once under each allocator that is here.

A run sleeps for most of its seven seconds, so that one run is enough: the number is memory, which
varies by a percent.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from nearlab import peers, places
from nearlab.measure import measure
from nearlab.peers import Allocator
from nearlab.programs.base import last_line
from nearlab.runs.served import wrong_allocator

RUN_S = 8  # of one run, with its start
MEGABYTES = 320  # MiB
THREADS = 8
FREED_PERCENT = 95
REST_S = 6
_PEERS = ("jemalloc", "mimalloc2", "tcmalloc")  # Debian's packages, where they are installed
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Peak:
    """The resident memory under one allocator, in MiB, or why it is not known."""

    name: str
    title: str
    full: float = 0.0
    rested: float = 0.0
    used_full: float = 0.0  # what the program used of it then
    used_rested: float = 0.0
    failure: str | None = None


def here(allocators: Iterable[Allocator]) -> list[Allocator]:
    """These allocators and the peers that are installed."""
    found = (peers.find(name) for name in _PEERS)
    return [*allocators, *(peer for peer in found if peer.available)]


def run(allocator: Allocator) -> Peak:
    """Runs the workload; a run that fails is a result."""
    title = _named(allocator)
    options = {
        "--threads": THREADS,
        "--megabytes": MEGABYTES // THREADS,
        "--freed": FREED_PERCENT,
        "--rest": 1000 * REST_S,
        "--more": 0,
    }
    words = [str(word) for pair in options.items() for word in pair]
    try:
        sample = measure.run_child(
            [places.workload_dir() / "after_peak", *words],
            preload=allocator.library,
            env=dict(allocator.environment),
            timeout=_TIMEOUT_S,
        )
        failure = sample.failure()
        if failure is not None:
            return Peak(allocator.name, title, failure=failure + last_line(sample.stderr))
        result = json.loads(sample.stdout)
    except (measure.MeasureError, OSError, ValueError) as error:
        return Peak(allocator.name, title, failure=str(error))
    full, rested, live = (
        result[key] / 1024 for key in ("at_peak_kib", "after_peak_kib", "live_kib")
    )
    problem = wrong_allocator(sample, allocator)
    return Peak(allocator.name, title, full, rested, MEGABYTES, live, problem)


def _named(allocator: Allocator) -> str:
    """The label with the version; a label such as `mimalloc 2` has the first number already."""
    label, _, number = allocator.label.rpartition(" ")
    starts = label and allocator.version.startswith(f"{number}.")
    return f"{label if starts else allocator.label} {allocator.version}"
