"""The targets of speed and size, and whether a set of results reaches them.

A ratio is read at the unfavourable edge of its 95 % interval. Invariant: a target whose rows were
not all measured, or failed, is `not measured`, never reached.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import stats
from .cases import Results
from .rows import SPEED
from .stats import Interval

OURS = "nearmalloc"
INSTRUCTION_LIMITS = {
    ("pair", 16): 36,
    ("pair", 64): 36,
    ("pair", 256): 36,
    ("pair", 1024): 36,
    ("pair", 32768): 70,
    ("batch", 16): 36,
    ("batch", 64): 36,
    ("batch", 256): 44,
    ("batch", 1024): 60,
    ("batch", 32768): 200,
}
Counts = dict[str, dict[tuple[str, int], float | str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target. `reached` is None when it was not measured."""

    target: str
    found: str
    reached: bool | None


def verdicts(results: Results | None, counts: Counts | None) -> list[Verdict]:
    """Every target, in the order in which they are stated."""
    checks: list[Verdict] = []
    checks.extend(_instructions(counts or {}))
    if results is not None:
        checks.extend(_guarded(label, check, results) for label, check in _CHECKS)
    return checks


class _NotMeasured(Exception):
    pass


def _guarded(label: str, check: Callable[[Results], Verdict], results: Results) -> Verdict:
    try:
        return check(results)
    except _NotMeasured as reason:
        return Verdict(label, f"not measured: {reason}", None)


def _instructions(counts: Counts) -> Iterator[Verdict]:
    found = counts.get(OURS, {})
    for mode in ("pair", "batch"):
        limits = {size: limit for (m, size), limit in INSTRUCTION_LIMITS.items() if m == mode}
        label = f"instructions, {mode}: at most " + ", ".join(map(str, limits.values()))
        values = [found.get((mode, size)) for size in limits]
        numbers = [value for value in values if isinstance(value, float)]
        if len(numbers) < len(limits):
            yield Verdict(label, "not measured", None)
            continue
        reached = all(round(n, 1) <= m for n, m in zip(numbers, limits.values(), strict=True))
        yield Verdict(label, ", ".join(f"{number:.1f}" for number in numbers), reached)


def _series(results: Results, row: str, allocator: str, metric: str) -> list[float]:
    series = results.series(row, allocator, metric)
    if not series:
        failures = results.failures(row, allocator)
        raise _NotMeasured(f"{row}, {allocator}" + (f" ({failures[0]})" if failures else ""))
    return series


def _pairs(results: Results, rows: list[str], peer: str, metric: str):
    return [
        (_series(results, row, OURS, metric), _series(results, row, peer, metric)) for row in rows
    ]


def _geometric(
    results: Results, rows: list[str], peer: str, metric: str, limit: float, label: str
) -> Verdict:
    found = stats.geometric_mean_of_ratios(_pairs(results, rows, peer, metric))
    return Verdict(label, str(found), found.high <= limit)


def _speed_rows(threads: int = 1) -> list[str]:
    return [row.name for row in SPEED if row.threads >= threads]


_TIME_3 = "time, all rows: geometric mean at most 0.85x mimalloc 3"
_TIME_2 = "time, multi-threaded rows: geometric mean at most 0.95x mimalloc 2"
_TIME_ROW = "time: no row above 1.15x mimalloc 3"
_MEMORY = "memory: geometric mean at most 1.00x jemalloc"
_MEMORY_ROW = "memory: no row above the smallest peer by both 1.5x and 2 MiB"
_STRETCHES = "90 % freed in stretches: RSS at most 1.3x what is live"
_RANDOM = "90 % freed at random: RSS at most 0.75x glibc"
_IDLE = "idle process: memory within 300 KiB of glibc"
_START = "start-up: at most 1.15x glibc"
_THREADS = "200 idle threads: at most 1024 KiB retained by each"


def _time_3(results: Results) -> Verdict:
    return _geometric(results, _speed_rows(), "mimalloc3", "seconds", 0.85, _TIME_3)


def _time_2(results: Results) -> Verdict:
    return _geometric(results, _speed_rows(threads=2), "mimalloc2", "seconds", 0.95, _TIME_2)


def _time_row(results: Results) -> Verdict:
    rows = _speed_rows()
    ratios = {
        row: stats.ratio(*pair)
        for row, pair in zip(rows, _pairs(results, rows, "mimalloc3", "seconds"), strict=True)
    }
    worst = max(ratios, key=lambda row: ratios[row].high)
    above = [f"{row} {ratios[row]}" for row in rows if ratios[row].high > 1.15]
    return Verdict(_TIME_ROW, "; ".join(above) or f"{worst} {ratios[worst]}", not above)


def _memory(results: Results) -> Verdict:
    return _geometric(results, _speed_rows(), "jemalloc", "memory_kib", 1.0, _MEMORY)


def smallest_peer(results: Results, row: str) -> tuple[str, list[float]] | None:
    """The allocator other than ours with the least memory in a row."""
    found = {
        peer.name: results.series(row, peer.name, "memory_kib")
        for peer in results.allocators
        if peer.name != OURS
    }
    measured = {name: series for name, series in found.items() if series}
    if not measured:
        return None
    name = min(measured, key=lambda peer: stats.median(measured[peer]))
    return name, measured[name]


def _memory_row(results: Results) -> Verdict:
    above, worst = [], ("", Interval(0, 0, 0))
    for row in _speed_rows():
        ours = _series(results, row, OURS, "memory_kib")
        smallest = smallest_peer(results, row)
        if smallest is None:
            raise _NotMeasured(f"{row}, peers")
        name, theirs = smallest
        found = stats.ratio(ours, theirs)
        more = stats.difference(ours, theirs)
        text = f"{row}: {found} of {name}, {more.value / 1024:+.1f} MiB"
        if found.high > 1.5 and more.high > 2048:
            above.append(text)
        if found.high > worst[1].high:
            worst = (text, found)
    return Verdict(_MEMORY_ROW, "; ".join(above) or worst[0], not above)


def _stretches(results: Results) -> Verdict:
    row = "fragmentation stretches"
    found = stats.ratio(
        _series(results, row, OURS, "heap_rested_kib"), _series(results, row, OURS, "live_kib")
    )
    return Verdict(_STRETCHES, str(found), found.high <= 1.3)


def _random(results: Results) -> Verdict:
    return _geometric(results, ["fragmentation random"], "glibc", "heap_rested_kib", 0.75, _RANDOM)


def _idle(results: Results) -> Verdict:
    ((ours, theirs),) = _pairs(results, ["idle"], "glibc", "memory_kib")
    more = stats.difference(ours, theirs)
    return Verdict(
        _IDLE, f"{more.value:+.0f} [{more.low:+.0f}, {more.high:+.0f}]", more.high <= 300
    )


def _start(results: Results) -> Verdict:
    return _geometric(results, ["start-up"], "glibc", "seconds", 1.15, _START)


def _threads(results: Results) -> Verdict:
    worst = max(_series(results, "idle threads", OURS, "retained_kib_per_thread"))
    return Verdict(_THREADS, f"{worst:.0f} KiB", worst <= 1024)


_CHECKS = (
    (_TIME_3, _time_3),
    (_TIME_2, _time_2),
    (_TIME_ROW, _time_row),
    (_MEMORY, _memory),
    (_MEMORY_ROW, _memory_row),
    (_STRETCHES, _stretches),
    (_RANDOM, _random),
    (_IDLE, _idle),
    (_START, _start),
    (_THREADS, _threads),
)
