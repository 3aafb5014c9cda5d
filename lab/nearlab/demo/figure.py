"""The demo's figure: a panel for each measure, a dot with its interval for each program.

Invariant: the figure shows the rows of the table, in their order, and nothing else; all panels have
one scale. A failed program is named, never left out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from nearlab.demo.table import MEASURES, Measure, Row, geometric_means, medians, verdict
from nearlab.results import stats

_COLORS = {-1: "#1a7f4b", 0: "#5f6b76", 1: "#c0392b"}  # by verdict
_INK, _QUIET, _LINES, _SHADE = "#2c3440", "#7d8791", "#e6e9ec", "#f3f5f7"
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)
_LEAST_REACH = 1.3  # the axes span at least 1 / this to this, so that noise looks small
_ROW_INCHES, _TOP_INCHES, _BOTTOM_INCHES, _WIDTH_INCHES = 0.5, 1.15, 0.85, 12.0


def draw(rows: Sequence[Row], baseline: str, candidate: str, note: str, path: Path) -> None:
    """Writes the figure to `path`. Requires: at least one row."""
    means = geometric_means(rows) if sum(not row.failure for row in rows) > 1 else ()
    places = len(rows) + bool(means)
    height = _TOP_INCHES + _ROW_INCHES * places + _BOTTOM_INCHES
    figure, panels = pyplot.subplots(
        1, len(MEASURES), sharey=True, figsize=(_WIDTH_INCHES, height), facecolor="white"
    )
    figure.subplots_adjust(
        left=0.115,
        right=0.905,
        top=1 - _TOP_INCHES / height,
        bottom=_BOTTOM_INCHES / height,
        wspace=0.5,
    )
    title = f"Real programs: {candidate} against {baseline}"
    figure.text(0.012, 1 - 0.32 / height, title, size=14, weight="bold", color=_INK)
    figure.text(0.012, 1 - 0.58 / height, "left of the line is better", size=10, color=_QUIET)
    figure.text(0.012, 0.13 / height, note, size=8.5, color=_QUIET, linespacing=1.4)
    reach = _reach(rows)
    for column, (measure, panel) in enumerate(zip(MEASURES, panels, strict=True)):
        _prepare_panel(panel, measure.heading, reach)
        _draw_rows(panel, rows, column, measure)
        if means:
            panel.axhspan(len(rows) - 0.5, len(rows) + 0.5, color=_SHADE, zorder=0)
            _draw_ratio(panel, len(rows), means[column], "", "D")
    names = [row.name for row in rows] + ["geometric mean"] * bool(means)
    panels[0].set_yticks(range(places), names)
    panels[0].set_ylim(places - 0.5, -0.5)
    figure.savefig(path, dpi=160)
    pyplot.close(figure)


def _reach(rows: Sequence[Row]) -> float:
    """Returns the factor from 1 to the ends of the axes."""
    ratios = [comparison.ratio for row in rows for comparison in row.comparisons]
    ends = [end for one in ratios for end in (_ends(one))]
    return 1.06 * max([_LEAST_REACH, *(max(end, 1 / end) for end in ends)])


def _ends(ratio: stats.Interval) -> tuple[float, float]:
    return (ratio.low, ratio.high) if ratio.known else (ratio.value, ratio.value)


def _prepare_panel(panel: Axes, heading: str, reach: float) -> None:
    panel.set_xscale("log")
    panel.set_xlim(1 / reach, reach)
    panel.xaxis.set_major_locator(FixedLocator(_ticks(reach)))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    panel.axvline(1, color=_INK, linewidth=1, zorder=1)
    panel.grid(axis="x", color=_LINES, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.set_title(heading, loc="left", size=11.5, color=_INK, weight="bold", pad=8)
    panel.tick_params(length=0, labelsize=9.5, colors=_INK, pad=6)
    for spine in panel.spines.values():
        spine.set_visible(False)


def _draw_rows(panel: Axes, rows: Sequence[Row], column: int, measure: Measure) -> None:
    for place, row in enumerate(rows):
        if row.failure:
            _label(panel, place, "failed", "", _COLORS[1])
        else:
            comparison = row.comparisons[column]
            _draw_ratio(panel, place, comparison.ratio, medians(measure, comparison), "o")


def _draw_ratio(panel: Axes, place: int, ratio: stats.Interval, detail: str, marker: str) -> None:
    color = _COLORS[verdict(ratio)]
    panel.plot(
        _ends(ratio),
        [place, place],
        color=color,
        linewidth=4,
        alpha=0.35,
        solid_capstyle="round",
    )
    panel.plot(ratio.value, place, marker, color=color, markersize=8)
    _label(panel, place, f"{ratio.value:.2f}", detail, color)


def _label(panel: Axes, place: int, text: str, detail: str, color: str) -> None:
    """A text at the right of the panel, with a smaller one below."""
    at: dict[str, Any] = {"xy": (1.03, place), "xycoords": panel.get_yaxis_transform()}
    at |= {"va": "center", "textcoords": "offset points", "annotation_clip": False}
    above, below = ((0, 6), (0, -7)) if detail else ((0, 0), (0, 0))
    panel.annotate(text, xytext=above, size=10.5, weight="bold", color=color, **at)
    panel.annotate(detail, xytext=below, size=8, color=_QUIET, **at)


def _ticks(reach: float) -> list[float]:
    """The ticks between 1 / reach and reach that do not touch each other, 1 always."""
    least = reach ** (2 / 6)
    kept = [1.0]
    for tick in sorted(_TICKS, key=lambda tick: max(tick, 1 / tick)):
        fits = 1 / reach <= tick <= reach
        if fits and all(max(tick / other, other / tick) >= least for other in kept):
            kept.append(tick)
    return kept
