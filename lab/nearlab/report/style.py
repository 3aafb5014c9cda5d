"""The looks: one colour and one shape for each allocator, names and units of metrics, digits.

Invariant: an allocator looks the same in every figure of every report. Every colour differs from
its background (light or dark) by a contrast of 3 or more; shapes tell apart what colours do not.
Source of the hues: Okabe and Ito, Color Universal Design; Tol, Colour Schemes.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from nearlab import places


@dataclass(frozen=True, slots=True)
class Look:
    """An allocator's colour on a light and on a dark page, its shape and the dash of its line."""

    light: str
    dark: str
    shape: str
    dash: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """How a number is named and shown: `factor` times the record's, in `unit`."""

    key: str
    label: str
    unit: str = ""
    factor: float = 1
    more_is_better: bool = False

    @property
    def title(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label


SUBJECT = Look("#cc3311", "#ff7a59", "diamond")
_LOOKS = {
    "nearmalloc": SUBJECT,
    "glibc": Look("#6b6b6b", "#a6a6a6", "triangle-down", (6, 3)),
    "limit": Look("#949494", "#828282", "triangle-up", (2, 3)),
    "mimalloc3": Look("#0067a5", "#4da3e0", "circle"),
    "mimalloc2": Look("#2a93d1", "#8cc9f2", "square"),
    "jemalloc": Look("#00805f", "#1fb58c", "square"),
    "jemalloc5.3.1": Look("#2f9e86", "#7fdcc4", "circle"),
    "tcmalloc": Look("#b0578f", "#e08cc0", "triangle-up"),
    "google-tcmalloc": Look("#8a3a8f", "#c278cc", "cross"),
    "snmalloc": Look("#b57800", "#eab03d", "triangle-right"),
    "rpmalloc": Look("#7a6a00", "#cfc04a", "cross"),
    "tbb": Look("#5b4fc4", "#a59bff", "triangle-left"),
}
_HUES = (
    ("#882255", "#d977a3"),
    ("#117733", "#5cc27d"),
    ("#999933", "#d3d36a"),
    ("#332288", "#9c90ee"),
    ("#aa4499", "#e58bd7"),
    ("#2c7f94", "#7ccfe2"),
)
_SHAPES = ("circle", "triangle-up", "square", "triangle-left", "cross")
_MORE = tuple(  # the looks of the designs, then of allocators unknown here
    Look(*_HUES[at % 6], _SHAPES[at % 5], ((4, 2), (1, 2), (8, 2, 1, 2))[at // 6 % 3])
    for at in range(30)
)
_LOOKS |= dict(zip(places.design_names(), _MORE, strict=False))


def looks(names: Sequence[str], subject: str | None) -> dict[str, Look]:
    """Returns a look for each allocator. The prominent one is the subject's, or nearmalloc's."""
    found: dict[str, Look] = {}
    for name in names:
        known = _LOOKS.get(name)
        if name == subject:
            found[name] = SUBJECT
        elif known is None or (known is SUBJECT and subject not in (None, name)):
            start = zlib.crc32(name.encode())
            turns = (_MORE[(start + step) % len(_MORE)] for step in range(len(_MORE)))
            taken = [*_LOOKS.values(), *found.values()]
            found[name] = next((look for look in turns if look not in taken), _MORE[-1])
        else:
            found[name] = known
    return found


def looks_of_workloads(figures: Sequence[Sequence[str]]) -> dict[str, Look]:
    """Returns a look for each workload that a figure compares with others: the same in all figures,
    and as few alike in one figure as possible."""
    found: dict[str, Look] = {}
    for names in figures:
        taken = [found[name] for name in names if name in found]
        free = [look for look in _MORE if look not in taken]
        for name in names:
            if name not in found:
                found[name] = free.pop(0) if free else _MORE[-1]
    return found


_METRICS = {
    metric.key: metric
    for metric in (
        Metric("time", "time per operation", "ns", 1e9),
        Metric("seconds", "time", "s"),
        Metric("cpu_s", "CPU time", "s"),
        Metric("work_s", "work, threads times time", "s"),
        Metric("user_s", "user time", "s"),
        Metric("sys_s", "system time", "s"),
        Metric("operations", "operations", more_is_better=True),
        Metric("ops_per_s", "operations", "million/s", 1e-6, True),
        Metric("speedup", "speed-up", "×", 1, True),
        Metric("memory_kib", "peak memory", "MiB", 1 / 1024),
        Metric("heap_kib", "heap above an empty process", "MiB", 1 / 1024),
        Metric("empty_kib", "empty process", "MiB", 1 / 1024),
        Metric("peak_rss_kib", "peak RSS", "MiB", 1 / 1024),
        Metric("mean_rss_kib", "mean RSS", "MiB", 1 / 1024),
        Metric("at_peak_kib", "resident at the peak", "MiB", 1 / 1024),
        Metric("after_peak_kib", "resident soon after", "MiB", 1 / 1024),
        Metric("long_after_peak_kib", "resident long after", "MiB", 1 / 1024),
        Metric("pte_kib", "page tables", "MiB", 1 / 1024),
        Metric("minor_faults", "minor faults"),
        Metric("major_faults", "major faults"),
        Metric("context_switches", "context switches"),
    )
}


def metric(key: str) -> Metric:
    """The metric by its key in the record; the key tells the unit of one that is not listed."""
    if key in _METRICS:
        return _METRICS[key]
    for ending, unit, factor in (("_ns", "ns", 1), ("_kib", "MiB", 1 / 1024), ("_s", "s", 1)):
        if key.endswith(ending):
            return Metric(key, key.removesuffix(ending).replace("_", " "), unit, factor)
    return Metric(key, key.replace("_", " "))


def number(value: float | None) -> str:
    """Returns a number with three significant digits: 0.0123, 1.23, 12.3, 1,230, 1,230,000."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    if digits <= 0:
        return f"{round(value, digits):,.0f}"
    return f"{value:.{min(digits, 6)}f}" if digits < 7 else f"{value:.2e}"


def ratio(value: float | None) -> str:
    """Two decimals, fewer for large ones: 0.87, 1.20, 12.4, 130."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
