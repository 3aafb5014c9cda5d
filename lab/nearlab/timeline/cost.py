"""The command `timeline-cost`: the cost of recording, from runs with and without it.

The program takes `--timeline FILE` and ends with a line of JSON with `seconds` and, if it runs for
a fixed time, `operations`, as the workloads do. A pair is a run of each kind; the order alternates;
the first pair warms up and does not count. On a shared machine CPU time is more reliable. It
includes the page faults of the row and the writing of the file.
Invariant: the two series are paired by round; the cost is the ratio of their medians less 1.
"""

import json
import resource
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nearlab.results import stats
from nearlab.timeline.command import refuse
from nearlab.timeline.file import TimelineError, read

_SECONDS = 600  # the time-out of a run, in seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """The ratios, of a run with recording to one without, of the time per operation and of the
    CPU time per operation; and what was recorded in the last run."""

    time: stats.Interval
    cpu: stats.Interval
    events: int
    dropped: int


def measure(command: list[str], pairs: int) -> Cost:
    """Measures the cost. Raises TimelineError if the program fails or gives no result."""
    with_it: list[tuple[float, float]] = []
    without: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "timeline")
        recording = [*command, "--timeline", str(file)]
        for number in range(pairs + 1):
            both = [(recording, with_it), (command, without)]
            for words, found in both if number % 2 else reversed(both):
                found.append(_run(words))
        recorded = read(file)
    time, cpu = (
        stats.ratio([run[at] for run in with_it[1:]], [run[at] for run in without[1:]])
        for at in range(2)
    )
    return Cost(time, cpu, recorded.events, recorded.dropped)


def _run(command: list[str]) -> tuple[float, float]:
    """Returns seconds and CPU seconds per operation, or of the whole run if it counts no
    operations."""
    before = _cpu_of_children()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TimelineError(f"cannot run {command[0]}: {error}") from None
    cpu = _cpu_of_children() - before
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TimelineError(f"{command[0]} ended with status {done.returncode}: {said}")
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
        operations = result.get("operations") or 1
        seconds = result["seconds"] / operations
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise TimelineError(f"{command[0]} gave no line of JSON with `seconds`") from None
    return seconds, cpu / operations


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timeline_cost(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT]...")],
    pairs: Annotated[
        int, typer.Option(min=stats.FEWEST_RUNS, help="Of a run with and a run without.")
    ] = 9,
) -> None:
    """Measures what a timeline costs a program that takes `--timeline FILE`."""
    try:
        found = measure(command, pairs)
    except TimelineError as error:
        raise refuse(error) from None
    lost = f", {found.dropped:,} dropped" if found.dropped else ""
    typer.echo(f"recording {found.events:,} events{lost}, {pairs} pairs")
    typer.echo(f"time: {_percent(found.time)}\nCPU time: {_percent(found.cpu)}")


def _percent(ratio: stats.Interval) -> str:
    value, low, high = (f"{100 * (each - 1):+.1f}" for each in (ratio.value, ratio.low, ratio.high))
    return f"{value} % [{low}, {high}]"
