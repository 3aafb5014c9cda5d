"""The command `timeline-cost`: what recording costs a program, by runs with and without it.

The program takes `--timeline FILE` and ends with a line of JSON with `seconds` and, if it runs for
a fixed time, `operations`, as the workloads do. A pair is a run of each kind, the order changes
from pair to pair; a first pair warms up and does not count.
Invariant: the two series are paired by round; the cost is the ratio of their medians less 1.
"""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from . import stats
from .timeline import refuse
from .timeline_file import TimelineError, read

_SECONDS = 600  # that a run may take


@dataclass(frozen=True, slots=True)
class Cost:
    """The ratio of the time per operation with recording to that without, and what was recorded
    in the last run."""

    ratio: stats.Interval
    events: int
    dropped: int


def measure(command: list[str], pairs: int) -> Cost:
    """Raises TimelineError when the program fails or gives no result."""
    with_it, without = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "timeline")
        recording = [*command, "--timeline", str(file)]
        for number in range(pairs + 1):
            both = [(recording, with_it), (command, without)]
            for words, times in both if number % 2 else reversed(both):
                times.append(_time(words))
        found = read(file)
    return Cost(stats.ratio(with_it[1:], without[1:]), found.events, found.dropped)


def _time(command: list[str]) -> float:
    """Seconds per operation, or seconds where there are no operations."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TimelineError(f"cannot run {command[0]}: {error}") from None
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TimelineError(f"{command[0]} ended with status {done.returncode}: {said}")
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
        return result["seconds"] / (result.get("operations") or 1)
    except (IndexError, KeyError, TypeError, ValueError):
        raise TimelineError(f"{command[0]} gave no line of JSON with `seconds`") from None


def timeline_cost(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT]...")],
    pairs: Annotated[int, typer.Option(min=2, help="Of a run with and a run without.")] = 9,
) -> None:
    """Measures what a timeline costs a program that takes `--timeline FILE`."""
    try:
        found = measure(command, pairs)
    except TimelineError as error:
        raise refuse(error) from None
    ratio = found.ratio
    value, low, high = (f"{100 * (each - 1):+.1f}" for each in (ratio.value, ratio.low, ratio.high))
    lost = f", {found.dropped:,} dropped" if found.dropped else ""
    typer.echo(
        f"recording {found.events:,} events{lost}: {value} % time [{low}, {high}], {pairs} pairs"
    )
