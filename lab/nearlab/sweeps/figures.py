"""The figure of each curve: ratios to the best peer, with a mark where the subject is not the best.

Invariant: a figure draws the points of one curve; the marks are those of `Point.is_best`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import altair as alt
import pandas as pd  # type: ignore[import-untyped]  # it has no types

from nearlab.report import charts, style, theme
from nearlab.report.charts import Frame
from nearlab.report.figures import Figure, Panel
from nearlab.report.rows import Row
from nearlab.results.record import Cell
from nearlab.sweeps.points import Point, values
from nearlab.sweeps.verdicts import Sweep

_TITLES = {"time": "time", "memory": "peak memory", "rest": "memory after a rest"}


def axis_of(cells: Sequence[Cell]) -> str:
    """The option over which the curve runs."""
    return next((name for cell in cells for name in cell.x), "threads")


def curves(sweep: Sweep) -> Iterator[tuple[Figure, Frame]]:
    """The figure of each curve that has a point."""
    names = [one.name for one in sweep.record.allocators if not one.missing]
    cpus = int((sweep.record.plan.get("machine") or {}).get("cpus", 0))
    frame = Frame(style.looks(names, sweep.subject), sweep.subject, cpus)
    every = [*sweep.time, *sweep.memory]
    for name in dict.fromkeys(cell.workload for cell in sweep.record.cells):
        cells = [cell for cell in sweep.record.cells if cell.workload == name]
        panels, rows = [], []
        for kind, title in _TITLES.items():
            own = [one for one in every if one.curve == name and one.kind == kind]
            if own:
                found = [row for one in own for row in _rows(sweep, one, axis_of(cells))]
                panels.append(Panel(title, _panel(found, own, frame, axis_of(cells))))
                rows += found
        if panels:
            yield _figure(sweep, name, cells, rows, panels), frame


def _figure(
    sweep: Sweep, name: str, cells: Sequence[Cell], rows: Sequence[Row], panels: Sequence[Panel]
) -> Figure:
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)
    return Figure(
        name="-".join(part for part in plain.split("-") if part),
        title=f"{name}: ratios to the best peer of each point",
        caption=f"Rings mark the points where {sweep.subject} is not the best.",
        rows=tuple(rows),
        panels=tuple(panels),
        setting=f"rings: {sweep.subject} is not the best; {len(cells)} cells, "
        f"{str(sweep.record.plan.get('date', ''))[:10]}",
    )


def _rows(sweep: Sweep, one: Point, axis: str) -> Iterator[Row]:
    """A row for each allocator: its median by that of the best peer."""
    for name, median in one.medians.items():
        row = Row(
            cell=one.cell.name,
            allocator=name,
            metric=one.kind,
            unit=f"of {one.peer}",
            relative_to=one.peer,
            value=median / one.medians[one.peer],
            runs=len(values(sweep.record, one.cell.name, name, one.kind)),
            x=one.cell.at(axis),
            workload=one.curve,
            group=one.cell.group,
            threads=one.cell.threads,
            oversubscribed=one.cell.oversubscribed,
        )
        if name == sweep.subject and one.ratio is not None and one.ratio.known:
            row = replace(row, low=one.ratio.low, high=one.ratio.high)
        yield row


def _panel(rows: Sequence[Row], points: Sequence[Point], frame: Frame, axis: str) -> charts.Chart:
    chart = charts.lines(rows, frame, axis, "ratio to the best peer", ratio=True)
    behind = [one for one in points if one.ratio is not None and not one.is_best]
    words = any(isinstance(row.x, str) for row in rows)
    marks = pd.DataFrame(
        [
            {
                "x": str(one.cell.at(axis)) if words else one.cell.at(axis),
                "value": one.ratio.value,
            }
            for one in behind
            if one.ratio is not None
        ],
        columns=["x", "value"],
    )
    rings = (
        alt.Chart(marks)
        .mark_point(shape="circle", size=320, strokeWidth=1.6, filled=False, style="base")
        .encode(x="x:O" if words else "x:Q", y="value:Q")
    )
    return alt.layer(chart, rings) if behind else chart


def write(sweep: Sweep, folder: Path) -> list[Path]:
    """Writes the PNG of each curve into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for figure, frame in curves(sweep):
        path = folder / f"{figure.name}.png"
        theme.write_picture(figure, frame, path)
        found.append(path)
    return found
