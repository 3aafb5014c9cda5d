"""The baseline as one picture: time relative to mimalloc 3, memory relative to jemalloc."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from . import stats
from .cases import Results

_STYLES = {
    "nearmalloc": ("#d62728", "D"),
    "mimalloc3": ("#1f77b4", "o"),
    "mimalloc2": ("#17becf", "o"),
    "jemalloc": ("#2ca02c", "s"),
    "tcmalloc": ("#9467bd", "^"),
    "glibc": ("#7f7f7f", "v"),
}
_TICKS = [2.0**power for power in range(-6, 9)]


def draw(results: Results, row_names: Sequence[str], path: Path) -> None:
    """Two panels of medians with 95 % intervals; an allocator that failed a row is not there."""
    names = [row for row in row_names if row in results.cases()]
    if not names:
        return
    chart, (time, memory) = plt.subplots(2, 1, figsize=(12, 9), sharex=True)
    _panel(time, results, names, "seconds", "mimalloc3", "time / mimalloc 3")
    _panel(memory, results, names, "memory_kib", "jemalloc", "peak memory / jemalloc")
    memory.set_xticks(range(len(names)), names, rotation=30, ha="right")
    chart.legend(*time.get_legend_handles_labels(), ncols=6, loc="upper center", fontsize="small")
    chart.tight_layout(rect=(0, 0, 1, 0.96))
    chart.savefig(path, dpi=120)
    plt.close(chart)


def _panel(
    axes, results: Results, names: Sequence[str], metric: str, reference: str, label: str
) -> None:
    shown = [a for a in results.allocators if a.available]
    for place, allocator in enumerate(shown):
        points = []
        for at, name in enumerate(names):
            above = results.series(name, allocator.name, metric)
            below = results.series(name, reference, metric)
            if above and below:
                points.append(
                    (at + (place - (len(shown) - 1) / 2) * 0.11, stats.ratio(above, below))
                )
        colour, marker = _STYLES.get(allocator.name, ("#bcbd22", "x"))
        axes.errorbar(
            [at for at, _ in points],
            [found.value for _, found in points],
            yerr=[
                [max(0, found.value - found.low) for _, found in points],
                [max(0, found.high - found.value) for _, found in points],
            ],
            fmt=marker,
            color=colour,
            markersize=6,
            linewidth=1,
            label=f"{allocator.label} {allocator.version}",
        )
    axes.axhline(1, color="black", linewidth=0.8)
    for at in range(len(names) - 1):
        axes.axvline(at + 0.5, color="#dddddd", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_locator(FixedLocator(_TICKS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylabel(label)
    axes.grid(axis="y", alpha=0.3)
