"""The figure of a plan: workloads by allocators, relative to the plan's baseline.

It has a column of panels for each topology and a row for each number. Invariant: a bar is a median
over the seeds whose runs passed; its line goes from the lowest to the highest of these. A bar
begins at 1, the baseline, on a logarithmic axis. Where the baseline is within the plan's floor, the
bar is hatched, relative to the floor, and has its absolute number. A cross means no number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from nearlab.report import style
from nearvm import medians
from nearvm.medians import Median
from nearvm.plan_results import Result
from nearvm.plans import Plan

_TITLES = {
    "remote": "remote accesses",
    "remote_misses": "remote misses\n(past private caches)",
    "tlb_4k": "4 KiB pages touched,\nsum over CPUs",
    "tlb_2m": "2 MiB pages touched,\nsum over CPUs",
}
_INK, _QUIET, _LINES = "#2c3440", "#6b747d", "#e6e9ec"
_GROUP = 0.84  # the width of a workload's bars, as a fraction of its place
_LEAST, _MOST = 1e-4, 1e4  # bars are cut off there: zero, for example, has no place on the axis
_WIDTH_BY_BAR, _HEIGHT, _DPI = 0.15, 2.3, 150
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Bar:
    """`median` is shown relative to `against`, which is the baseline or, where that is noise, the
    floor."""

    at: float
    width: float
    color: str
    median: Median | None
    against: float
    noise: bool

    def ratio(self, value: float) -> float:
        return min(max(value / self.against, _LEAST), _MOST)


def draw(plan: Plan, result: Result, path: Path) -> None:
    """Writes an SVG or a PNG, as the path's suffix says."""
    keys = plan.keys
    bars_in_all = len(keys.topologies) * len(keys.cases) * len(_shown(plan))
    size = (max(10.0, 1.5 + _WIDTH_BY_BAR * bars_in_all), 1.4 + _HEIGHT * len(_TITLES))
    chart, panels = plt.subplots(
        len(_TITLES),
        len(keys.topologies),
        figsize=size,
        squeeze=False,
        sharex="col",
        sharey="row",
        layout="constrained",
    )
    try:
        chart.suptitle(_title(plan, result), size=10, color=_INK, x=0.01, ha="left")
        for row, number in zip(panels, _TITLES, strict=True):
            for axes, where in zip(row, keys.topologies, strict=True):
                _panel(axes, list(bars(plan, result, where, number)))
                _baseline(axes, plan, result, where, number)
            row[0].set_ylabel(_TITLES[number], size=9, color=_INK)
            _scale(row[0])
        for axes, where in zip(panels[0], keys.topologies, strict=True):
            axes.set_title(where, size=11, weight="bold", color=_INK, pad=16)
        for axes in panels[-1]:
            names = [case.replace("_", "\n") for case in keys.cases]
            axes.set_xticks(range(len(names)), names, size=8.5)
        chart.legend(
            handles=_legend(plan), loc="outside lower left", ncols=9, frameon=False, fontsize=9
        )
        _save(chart, path)
    finally:
        plt.close(chart)


def _title(plan: Plan, result: Result) -> str:
    seeds = result.head["seeds"]
    base = plan.keys.baseline
    lines = [
        f"{plan.name}: relative to {base}, whose own numbers are above the panels; down is fewer",
        f"Medians of {seeds} seed{'s' * (seeds > 1)}; counts of an emulated machine, never times",
    ]
    floors = [f"{floor:,} {name.replace('_', ' ')}" for name, floor in plan.keys.floors.items()]
    if floors:
        text = f"Hatched: {base} has no more than the noise, {' or '.join(floors)};"
        lines.append(f"{text} relative to that, with the absolute number")
    return "\n".join(lines)


def _shown(plan: Plan) -> list[str]:
    """All but the baseline, whose bar would have no height."""
    return [name for name in plan.keys.allocators if name != plan.keys.baseline]


def _colors(plan: Plan) -> dict[str, str]:
    found = style.looks(_shown(plan), "nearmalloc")
    return {name: look.light for name, look in found.items()}


def bars(plan: Plan, result: Result, where: str, number: str) -> Iterator[Bar]:
    groups = medians.grouped(result.verdicts)
    colors = _colors(plan)
    width = _GROUP / len(colors)
    for place, case in enumerate(plan.keys.cases):
        base, noise = _against(plan, result, where, case, number)
        for index, (name, color) in enumerate(colors.items()):
            median = medians.counted(groups.get((where, case, name), []), number)
            at = place + (index + 0.5) * width - _GROUP / 2
            yield Bar(at, width, color, None if base is None else median, base or 1, noise)


def _against(
    plan: Plan, result: Result, where: str, case: str, number: str
) -> tuple[float | None, bool]:
    """The number that bars are relative to, None without one, and whether it is the floor."""
    runs = medians.grouped(result.verdicts).get((where, case, plan.keys.baseline), [])
    base = medians.counted(runs, number)
    if base is None:
        return None, False
    floor = plan.floor(number)
    return (floor or 1, True) if base.value <= floor else (base.value, False)


def _panel(axes: Axes, bars: list[Bar]) -> None:
    axes.set_yscale("log")
    axes.axhline(1, color=_INK, linewidth=0.8, zorder=3)
    for bar in bars:
        if bar.median is None:
            axes.plot(bar.at, 1, "x", color=bar.color, markersize=5, zorder=4)
        else:
            _draw_bar(axes, bar, bar.median)
    axes.grid(axis="y", color=_LINES, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8.5, colors=_INK)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_bar(axes: Axes, bar: Bar, median: Median) -> None:
    ratio = bar.ratio(median.value)
    # A bar of 1 is a line of its colour.
    outside: dict[str, Any] = {"edgecolor": bar.color, "linewidth": 1.2}
    if bar.noise:
        outside = {"edgecolor": "white", "linewidth": 0, "hatch": "////"}
    drawn = axes.bar(bar.at, ratio - 1, 0.9 * bar.width, bottom=1, color=bar.color, **outside)
    drawn[0].set_zorder(2)
    if median.spread:
        ends = [bar.ratio(median.low), bar.ratio(median.high)]
        axes.plot([bar.at, bar.at], ends, color=_INK, linewidth=0.9, zorder=4)
    if bar.noise:
        offset, side = (2, "bottom") if ratio >= 1 else (-2, "top")
        _note(axes, median, (bar.at, ratio), offset, size=6.5, va=side, rotation=90)


def _note(axes: Axes, number: Median, at: tuple[float, float], up: float, **looks: Any) -> None:
    """An absolute number beside a place of the panel, so many points above it."""
    looks = {"textcoords": "offset points", "ha": "center", "color": _QUIET} | looks
    axes.annotate(_short(number.value), at, (0, up), **looks)


def _baseline(axes: Axes, plan: Plan, result: Result, where: str, number: str) -> None:
    """The baseline's own numbers above the panel, and a line between workloads."""
    groups = medians.grouped(result.verdicts)
    for place, case in enumerate(plan.keys.cases):
        base = medians.counted(groups.get((where, case, plan.keys.baseline), []), number)
        if base is not None:
            top = axes.get_xaxis_transform()
            _note(axes, base, (place, 1), 1, xycoords=top, va="bottom", size=8)
        if place:
            axes.axvline(place - 0.5, color=_LINES, linewidth=0.8, zorder=0)
    axes.set_xlim(-0.5, len(plan.keys.cases) - 0.5)


def _scale(axes: Axes) -> None:
    """Legible ticks: powers of ten over a wide range, else about powers of two."""
    low, high = axes.get_ylim()
    low, high = min(low, 0.6), max(high, 1.7)
    room = (high / low) ** 0.17  # space for the numbers at the ends of the bars
    low, high = low / room, high * room
    axes.set_ylim(low, high)
    if high / low > 100:
        ticks = [10.0**power for power in range(-4, 5)]
    else:
        ticks = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1 / 1.4, 1, 1.4, 2, 4, 8, 16, 32]
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_factor))


def _factor(value: float, _: object = None) -> str:
    return f"{value:,g}×" if value >= 1 else f"1/{1 / value:,g}"


def _short(value: float) -> str:
    """A number as `2.3 M`, `48 k`, `213`."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.{1 if value < 10 * size else 0}f} {unit}"
    return f"{value:.0f}"


def _legend(plan: Plan) -> list[Patch]:
    """The allocators in the order of the bars."""
    return [Patch(color=color, label=name) for name, color in _colors(plan).items()]


def _save(chart: Figure, path: Path) -> None:
    if path.suffix == ".svg":  # text stays text; the same verdicts give the same file
        with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "plan"}):
            chart.savefig(path, metadata={"Date": None})
    else:
        chart.savefig(path, dpi=_DPI)
