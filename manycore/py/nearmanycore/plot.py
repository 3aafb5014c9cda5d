"""The figure of throughput over processors, as SVG and PNG."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

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
