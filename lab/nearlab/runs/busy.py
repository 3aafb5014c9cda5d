"""Whether a machine was busy with other work during a run, by what the kernel counts.

A run is disturbed if others took over 5 % of its time: differences below that are not claimed.
- Its only thread waited for a processor for over 5 % of the time (/proc/PID/schedstat at the exit):
  its processor time is below 0.95 of the wall's, and not because it slept.
- The host took over 5 % of the processors' time (steal in /proc/stat, less one tick of 10 ms, by
  which it rounds). Virtual machines often lose 1 or 2 %, in all runs alike, which decides nothing.
- Its threads fit on the processors, yet for over 10 % of the time a task waited for one
  (/proc/pressure/cpu: the lab's own launcher may be that task for some of it), or a thread was
  preempted more than 200 times a second, as one is that shares its processor.
- Other tasks were running before it and after it, and left it too few processors (/proc/loadavg).
Of a real program, which has clients of its own beside it, only steal and other tasks are asked.
Invariant: what the kernel does not count disturbs nothing. Thread-safety: one thread (the driver).
"""

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from nearlab.measure.measure import Sample
from nearlab.plan.cells import Cell

_WAITED, _PRESSURE, _STEAL = 0.05, 0.10, 0.05  # shares of the run's time
_PREEMPTED = 200  # times a second and thread
_SHORT_S = 0.05  # shares of a shorter run are chance
_LOOKS, _BETWEEN_LOOKS_S = 5, 0.002
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    """The machine's counters at one time."""

    pressure_s: float
    steal_s: float
    others: int  # tasks that run, without the reader
    at: float


def read() -> Reading:
    looks = []
    for _ in range(_LOOKS):
        looks.append(_running() - 1)
        time.sleep(_BETWEEN_LOOKS_S)
    return Reading(_pressure_s(), _steal_s(), int(statistics.median(looks)), time.monotonic())


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # this kernel does not count it
        return ""


def _running() -> int:
    words = _text("/proc/loadavg").split()
    return int(words[3].partition("/")[0]) if len(words) > 3 else 1


def _pressure_s() -> float:
    first = _text("/proc/pressure/cpu").partition("\n")[0]
    return int(first.rpartition("total=")[2] or 0) / 1e6 if "total=" in first else 0.0


def _steal_s() -> float:
    words = _text("/proc/stat").partition("\n")[0].split()
    return int(words[8]) * _TICK_S if len(words) > 8 else 0.0


def disturbance(cell: Cell, sample: Sample | None, before: Reading, after: Reading) -> str | None:
    """What disturbed the run between the two readings, in a few words; None if nothing did."""
    wall = after.at - before.at
    if sample is None or wall < _SHORT_S:
        return None
    processors = len(os.sched_getaffinity(0))
    stolen = (after.steal_s - before.steal_s - _TICK_S) / (wall * processors)
    if stolen > _STEAL:
        return f"the host took {stolen:.0%} of the processors"
    threads = processors if cell.real_program else cell.running
    others = min(before.others, after.others)
    if others + min(threads, processors) > processors:
        return f"{others} other task{'s'[: others > 1]} ran on {processors} processors"
    if cell.real_program or cell.oversubscribed:
        return None
    return _crowded(cell, sample, (after.pressure_s - before.pressure_s) / wall)


def _crowded(cell: Cell, sample: Sample, pressure: float) -> str | None:
    """As `disturbance`, for a workload whose threads fit on the processors."""
    waited = (sample.waited_s or 0.0) / max(sample.wall_s, _SHORT_S)
    if cell.running == 1 and waited > _WAITED:
        return f"it waited for a processor for {waited:.0%} of the time"
    if pressure > _PRESSURE:
        return f"tasks waited for a processor for {pressure:.0%} of the time"
    preempted = sample.involuntary_switches / max(sample.wall_s, _SHORT_S) / cell.running
    if preempted > _PREEMPTED:
        return f"a thread was preempted {preempted:.0f} times a second"
    return None
