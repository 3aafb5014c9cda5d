"""The figure of a timeline: threads as rows, boxes for intervals, dots for changes of the epoch.

Below the rows, one row projects all dots; below that is the mean of unreclaimed objects by epoch.
Invariant: no interval is omitted because it is short. Intervals shorter than a pixel are drawn
together: each pixel is as dark as the share of its time that they cover. The caption counts them.
Colours: neighbouring epochs differ, also for the colour-blind, by 40 or more in CIELAB (76), and
each from the background by a contrast of 3 or more. [Kim23 figures 3.3 to 3.16]
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from nearlab.timeline.analysis import (
    MS,
    Window,
    interval_kind,
    point_kind,
    share_of_time,
    unreclaimed,
)
from nearlab.timeline.file import INTERVAL, POINT, Events, Timeline

COLOURS = ("#0067a5", "#b57800", "#5b4fc4", "#882255", "#2a93d1", "#cc5533")
_DOTS = "#111111"
_WIDTH, _DPI = 12.0, 150
_PIXELS = 1600  # the width of a window
_FAINTEST = 0.2  # the shade of a pixel with hardly any covered time
_AS_PIXELS = 5000  # from this many boxes and dots, an SVG holds them as a picture
_MOST_NAMES = 40
_STEEP = 30  # a maximum of this many medians makes the scale logarithmic


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Rectangles of one row; `shade` 1 is opaque."""

    begin: np.ndarray
    end: np.ndarray
    colour: np.ndarray
    shade: np.ndarray


def draw(
    timeline: Timeline,
    path: Path,
    *,
    part: Window,
    title: str = "",
    kind: str | None = None,
    scale: str = "auto",
) -> None:
    """Writes an SVG or a PNG, as the path's suffix says."""
    epochs, waiting = unreclaimed(timeline, part)
    rows = max(1, len(timeline.rows))
    height = min(14.0, 1.2 + 0.22 * (rows + 2))
    heights = [height, 2.4] if len(epochs) else [height]
    size = (_WIDTH, sum(heights) + 1.1)
    chart, panels = plt.subplots(
        len(heights), 1, figsize=size, squeeze=False, height_ratios=heights, layout="constrained"
    )
    try:
        chart.suptitle(title or timeline.path.name, fontsize="large")
        _rows(panels[0][0], timeline, interval_kind(timeline, kind), part)
        if len(epochs):
            _waiting(panels[1][0], epochs, waiting, scale)
        _save(chart, path)
    finally:
        plt.close(chart)


def _save(chart: Figure, path: Path) -> None:
    if path.suffix == ".svg":  # text stays text; the same timeline gives the same file
        with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "timeline"}):
            chart.savefig(path, dpi=_DPI, metadata={"Date": None})
    else:
        chart.savefig(path, dpi=_DPI)


def _rows(axes: Axes, timeline: Timeline, kind: int | None, part: Window) -> None:
    pixel = (part.end - part.begin) / _PIXELS
    bottom = len(timeline.rows) + 0.5  # the row that projects all dots
    short = total = 0
    ranks, dotted = _ranks(timeline, kind), point_kind(timeline)
    polygons, colours, dots = [], [], []
    for number, row in enumerate(timeline.rows):
        shown = row.events.within(part.begin, part.end)
        intervals = _of(shown, INTERVAL, kind)
        boxes, merged = _boxes(intervals, ranks, part, pixel)
        polygons.append(_polygons(boxes, number))
        colours.append(_rgba(boxes))
        dots.append(_apart(_of(shown, POINT, dotted).begin, part, pixel))
        short, total = short + merged, total + len(intervals)
    if polygons:
        _add(axes, np.concatenate(polygons), np.concatenate(colours))
    _dots(axes, dots, bottom, _apart(np.concatenate([*dots, np.empty(0)]), part, pixel))
    _frame(axes, timeline, part, bottom)
    axes.set_title(_caption(timeline, kind, part, total), fontsize="small", loc="left")
    if short:
        which = f"{short:,} of {total:,} boxes are shorter than a pixel ({_duration(pixel)})"
        how = "drawn together, shaded by the share of time"
        axes.set_xlabel(f"time, ms\n{which}: {how}", fontsize="small")


def _of(events: Events, shape: int, kind: int | None) -> Events:
    return events.where(np.s_[:0]) if kind is None else events.of(shape, kind)


def _ranks(timeline: Timeline, kind: int | None) -> np.ndarray:
    """Returns the distinct values of the kind's intervals, in order. Their ranks select colours,
    so that neighbouring epochs differ at any step from one epoch to the next."""
    if kind is None:
        return np.empty(0)
    values = [np.unique(row.events.of(INTERVAL, kind).value) for row in timeline.rows]
    return np.unique(np.concatenate(values))


def _boxes(intervals: Events, ranks: np.ndarray, part: Window, pixel: float) -> tuple[_Boxes, int]:
    """Returns the boxes of a row, and how many intervals were too short for a box of their own."""
    order = np.argsort(intervals.begin, kind="stable")
    begin = np.clip(intervals.begin[order], part.begin, part.end).astype(float)
    end = np.clip(intervals.end[order], part.begin, part.end).astype(float)
    colour = np.searchsorted(ranks, intervals.value[order]) % len(COLOURS)
    is_short = intervals.length[order] < pixel
    column = ((begin[is_short] - part.begin) / pixel).astype(int)
    columns, first = np.unique(column, return_index=True)
    last = np.append(first[1:], len(column)) - 1  # the later epoch gives the colour
    time = np.bincount(column, (end - begin)[is_short])[columns] if len(column) else columns
    left = part.begin + columns * pixel
    long = ~is_short
    return _Boxes(
        begin=np.concatenate((left, begin[long])),
        end=np.concatenate((left + pixel, end[long])),
        colour=np.concatenate((colour[is_short][last] if len(column) else columns, colour[long])),
        shade=np.concatenate((np.clip(time / pixel, _FAINTEST, 1), np.ones(long.sum()))),
    ), len(column)


def _polygons(boxes: _Boxes, number: int) -> np.ndarray:
    found = np.empty((len(boxes.begin), 4, 2))
    found[:, (0, 3), 0] = boxes.begin[:, None] / MS
    found[:, (1, 2), 0] = boxes.end[:, None] / MS
    found[:, :2, 1] = number - 0.42
    found[:, 2:, 1] = number + 0.42
    return found


def _rgba(boxes: _Boxes) -> np.ndarray:
    palette = np.array([to_rgb(colour) for colour in COLOURS])
    return np.column_stack((palette[boxes.colour.astype(int)], boxes.shade))


def _add(axes: Axes, polygons: np.ndarray, colours: np.ndarray) -> None:
    boxes = PolyCollection(
        polygons,  # type: ignore[arg-type]  # one array of all is allowed
        facecolors=colours,
        edgecolors="none",
        linewidths=0,
    )
    boxes.set_rasterized(len(polygons) > _AS_PIXELS)
    axes.add_collection(boxes, autolim=False)


def _apart(times: np.ndarray, part: Window, pixel: float) -> np.ndarray:
    """Keeps one of the dots that fall on the same half of a pixel; it would hide the others."""
    places = np.floor((times - part.begin) / (pixel / 2))
    return times[np.unique(places, return_index=True)[1]]


def _dots(axes: Axes, by_row: list[np.ndarray], bottom: float, all_dots: np.ndarray) -> None:
    lines = [(times, np.full(len(times), number)) for number, times in enumerate(by_row)]
    lines.append((all_dots, np.full(len(all_dots), bottom)))
    times, heights = (np.concatenate(part) for part in zip(*lines, strict=True))
    many = len(times) > _AS_PIXELS
    axes.scatter(times / MS, heights, s=7, c=_DOTS, linewidths=0, zorder=3, rasterized=many)


def _frame(axes: Axes, timeline: Timeline, part: Window, bottom: float) -> None:
    lost = [f" ({row.dropped:,} dropped)" if row.dropped else "" for row in timeline.rows]
    names = [row.name + end for row, end in zip(timeline.rows, lost, strict=True)]
    step = -(-max(1, len(names)) // _MOST_NAMES)
    places = list(range(0, len(names), step))
    axes.set_yticks([*places, bottom], [*(names[at] for at in places), "all"], fontsize="small")
    axes.axhline(bottom - 0.75, color="#999999", linewidth=0.8)
    axes.set_ylim(bottom + 0.7, -0.8)
    axes.set_xlim(part.begin / MS, part.end / MS)
    axes.set_xlabel("time, ms")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _duration(nanoseconds: float) -> str:
    for unit, size in (("ms", MS), ("µs", 1000)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def _caption(timeline: Timeline, kind: int | None, part: Window, boxes: int) -> str:
    said = []
    if kind is not None:
        share = share_of_time(timeline, kind, part)
        name = timeline.kinds[kind]
        what = "freeing" if name == "free_batch" else f"in {name}"
        if share is not None:
            said.append(f"{100 * share:.3g} % of the threads' time {what}")
        by = "epoch" if name == "free_batch" else "value"
        said.append(f"{boxes:,} boxes ({name}), coloured by {by}")
    dotted = point_kind(timeline)
    if dotted is not None:
        name = timeline.kinds[dotted]
        said.append("dots: " + ("the thread changed the epoch" if name == "epoch_change" else name))
    said.append(f"{timeline.dropped:,} events dropped")
    if timeline.threads > len(timeline.rows):
        said.append(f"{timeline.threads - len(timeline.rows):,} threads had no row")
    return "; ".join(said)


def _waiting(axes: Axes, epochs: np.ndarray, objects: np.ndarray, scale: str) -> None:
    axes.plot(
        epochs, objects, color=COLOURS[0], linewidth=1.2, rasterized=len(epochs) > 4 * _AS_PIXELS
    )
    positive = objects[objects > 0]
    steep = len(positive) > 0 and positive.max() > _STEEP * np.median(positive)
    if scale == "log" or (scale == "auto" and steep):
        axes.set_yscale("log", nonpositive="clip")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlabel("epoch")
    axes.set_ylabel("unreclaimed objects,\nmean of threads", fontsize="small")
    axes.grid(axis="y", alpha=0.3)
    axes.margins(x=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
