"""The figure of throughput over processors, as SVG and PNG."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from nearmanycore.report import Measures, title


def write(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Writes throughput.svg and throughput.png."""
    curves: dict[str, list[Measures]] = {}
    for measures in map(Measures.of, records):
        curves.setdefault(measures.allocator, []).append(measures)
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, points in curves.items():
        points.sort(key=lambda point: point.processors)
        axes.plot(
            [point.processors for point in points],
            [point.mops for point in points],
            marker="o",
            label=name,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    shown = sorted({point.processors for points in curves.values() for point in points})
    axes.set_xticks(shown, [str(number) for number in shown])
    axes.set_xlabel("processors (simulated)")
    axes.set_ylabel("million operations a second of virtual time")
    axes.set_title(title(records[0]))
    axes.grid(alpha=0.3)
    axes.legend()
    made = [folder / f"throughput.{suffix}" for suffix in ("svg", "png")]
    for path in made:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return made


def panels(rows: list[dict[str, str]], path: Path) -> Path:
    """Throughput over processors, a panel for each series. Equal rows give an equal file."""
    series = list(dict.fromkeys(each["series"] for each in rows))
    allocators = list(dict.fromkeys(each["allocator"] for each in rows))
    columns = min(3, len(series))
    lines = -(-len(series) // columns)
    with pyplot.rc_context({"svg.hashsalt": "near", "svg.fonttype": "none"}):
        figure, grid = pyplot.subplots(
            lines, columns, figsize=(4 * columns, 3 * lines), layout="constrained", squeeze=False
        )
        for number, axes in enumerate(grid.flat):
            if number >= len(series):
                axes.set_axis_off()
                continue
            own = [each for each in rows if each["series"] == series[number]]
            for color, name in enumerate(allocators):
                curve = sorted(
                    (int(each["processors"]), float(each["mops"]))
                    for each in own
                    if each["allocator"] == name
                )
                if curve:
                    axes.plot(*zip(*curve, strict=True), marker="o", color=f"C{color}", label=name)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            shown = sorted({int(each["processors"]) for each in own})
            axes.set_xticks(shown, [str(each) for each in shown])
            axes.set_title(series[number], fontsize=10)
            axes.grid(alpha=0.3)
        figure.legend(
            *_entries(grid.flat), loc="outside lower center", ncols=min(6, len(allocators))
        )
        figure.supxlabel(f"processors, simulated on {rows[0]['machine']}")
        figure.supylabel("million operations a second of virtual time")
        figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def _entries(panels: Iterable[Axes]) -> tuple[list[Artist], list[str]]:
    """The entries of the legend: each curve's name once."""
    found: dict[str, Artist] = {}
    for axes in panels:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    return list(found.values()), list(found)
