"""The machine's present speed: the seconds that a small fixed work takes (lab/bench/probe.c).

Invariant: the work is the same each time and calls no malloc, so a probe that takes twice as long
was taken on a machine half as fast. It says how steady the machine was. No time is scaled by it:
a program that waits for memory does not slow down as the probe does (decision 0007).
"""

import statistics
import subprocess
from collections.abc import Callable
from typing import TypeVar

from nearlab import places
from nearlab.measure.measure import MeasureError, child_environment

_REFERENCE_PROBES = 5
_SECONDS = 60
T = TypeVar("T")


def take() -> float:
    """One probe, in seconds."""
    path = places.bench_dir() / "probe"
    try:
        asked = subprocess.run(
            [path],
            env=child_environment(None),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        )
        return float(asked.stdout.split()[0])
    except FileNotFoundError:
        raise MeasureError(f"{path} is missing: build it with `./near build`") from None
    except (subprocess.SubprocessError, LookupError, ValueError) as error:
        raise MeasureError(f"{path} failed: {error}") from None


def reference() -> float:
    """The speed when a result begins: the median of some probes."""
    return statistics.median(take() for _ in range(_REFERENCE_PROBES))


def around(work: Callable[[], T]) -> tuple[T, float]:
    """Does the work; returns its result and the mean of the probes before and after."""
    before = take()
    outcome = work()
    return outcome, (before + take()) / 2
