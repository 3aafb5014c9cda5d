"""The figures that a plan asks for: lines, bars, scatters, heat-maps, curves.

Invariant: a figure compares either allocators, with a panel for each workload, or workloads, with a
panel for each allocator; what it does not draw is a row with its reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from nearlab.plan import families
from nearlab.report import charts
from nearlab.report.analysis import MEMORY, TIME, Analysis, meaningless
from nearlab.report.charts import Frame
from nearlab.report.figures import Figure, Panel, heat_figure, title_of
from nearlab.report.rows import Row, cell_rows, mean_row, origin
from nearlab.results.record import LIMIT, NOT_RUN, Cell, RecordError

KINDS = ("lines", "bars", "scatter", "heatmap", "curve")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A [[figure]] of the plan."""

    name: str
    kind: str
    cells: tuple[Cell, ...]
    x: str
    y: str
    relative_to: str | None
    series: str
    title: str
    caption: str
    allocators: tuple[str, ...] = ()  # each has a panel, if the figure compares workloads

    @property
    def workloads(self) -> list[str]:
        return list(_by_workload(self.cells))


def planned(analysis: Analysis, frame: Frame) -> list[Figure]:
    """Returns the figures that the plan asks for, in its order, except those of cells that the user
    left out."""
    entries = [_entry(analysis, found) for found in _figures(analysis)]
    return [_DRAW[entry.kind](analysis, frame, entry) for entry in entries if entry.cells]


def compared(analysis: Analysis) -> list[list[str]]:
    """The workloads of each figure that compares them."""
    entries = (_entry(analysis, found) for found in _figures(analysis))
    return [entry.workloads for entry in entries if entry.allocators]


def _figures(analysis: Analysis) -> list[dict[str, Any]]:
    tables = families.read(analysis.record.plan.get("plan_toml", "")).tables
    found: list[dict[str, Any]] = tables.get("figure", [])
    return found


def _entry(analysis: Analysis, found: dict[str, Any]) -> _Entry:
    name, kind = found.get("name", ""), found.get("kind", "")
    if not name or kind not in KINDS:
        raise RecordError(f"plan: figure '{name}' of unknown kind '{kind}'")
    wanted = found.get("workloads", ["*"])
    cells = tuple(
        cell
        for cell in analysis.record.cells
        if any(fnmatchcase(cell.workload, pattern) for pattern in wanted)
    )
    return _Entry(
        name=name,
        kind=kind,
        cells=cells,
        x=found.get("x", "" if kind == "curve" else "threads"),
        y=found.get("y", "" if kind in ("scatter", "curve") else "seconds"),
        relative_to=_present(analysis, found.get("relative_to")),
        series=found.get("series", ""),
        title=found.get("title", name),
        caption=found.get("caption", ""),
        allocators=_panels(analysis, found),
    )


def _panels(analysis: Analysis, found: dict[str, Any]) -> tuple[str, ...]:
    """Returns the allocators with a panel each; none if the figure compares allocators."""
    if found.get("by") != "workload":
        return ()
    wanted = found.get("allocators") or analysis.shown
    return tuple(name for name in analysis.shown if name in wanted and name != LIMIT)


def _present(analysis: Analysis, name: str | None) -> str | None:
    """Returns the allocator that ratios are relative to; the baseline replaces an unmeasured glibc.
    """
    return analysis.base if name == "glibc" else name


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns the allocators without a number and their cells, in one line for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.value is None and row.note != NOT_RUN:
            reasons.setdefault((row.allocator, row.note), []).append(row.cell)
    return tuple(
        f"{allocator}: {reason} ({', '.join(cells) if len(cells) < 4 else f'{len(cells)} cells'})"
        for (allocator, reason), cells in reasons.items()
    )


def _by_workload(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.workload, []).append(cell)
    return found


def _lines(analysis: Analysis, frame: Frame, entry: _Entry) -> Figure:
    cells = [cell for cell in entry.cells if cell.at(entry.x) is not None]
    if not cells:
        raise RecordError(f"plan: figure '{entry.name}': no cell has a value of '{entry.x}'")
    rows = cell_rows(analysis, cells, entry.y, relative_to=entry.relative_to, axis=entry.x)
    if entry.allocators:
        frame = frame.of_workloads(entry.workloads)
        rows = [row for row in rows if row.allocator in entry.allocators]
        groups = {name: _compared(rows, name) for name in entry.allocators}
    else:
        groups = {name: [r for r in rows if r.workload == name] for name in _by_workload(cells)}
    y_title, ratio = title_of(entry.y, entry.relative_to), bool(entry.relative_to)
    panels = [
        Panel(
            name if len(groups) > 1 or entry.allocators else "",
            charts.lines(group, frame, entry.x, y_title, ratio),
        )
        for name, group in groups.items()
    ]
    caption = entry.caption
    if any(row.oversubscribed for row in rows):
        caption += f" More threads than the {frame.cpus} CPUs of this machine: oversubscribed."
    return _figure(entry, rows, panels, frame.drawn, caption, _origins(analysis, entry))


def _compared(rows: Sequence[Row], allocator: str) -> list[Row]:
    """Returns the allocator's rows for a chart that compares workloads."""
    return [replace(row, allocator=row.workload) for row in rows if row.allocator == allocator]


def _origins(analysis: Analysis, entry: _Entry) -> tuple[str, ...]:
    """Returns what a speed-up is relative to, if that is not glibc with one thread."""
    if entry.y != "speedup":
        return ()
    starts = (origin(cell, entry.cells) for cell in entry.cells)
    others = [one.name for one in starts if one and (analysis.base, one.threads) != ("glibc", 1)]
    return tuple(f"Relative to {analysis.base} in {cell}." for cell in dict.fromkeys(others))


def _figure(
    entry: _Entry,
    rows: list[Row],
    panels: list[Panel],
    legend: Sequence[str] = (),
    caption: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """A planned figure; the legend is empty where names are beside the marks."""
    return Figure(
        name=entry.name,
        title=entry.title,
        caption=(caption or entry.caption).strip(),
        rows=tuple(rows),
        panels=tuple(panels),
        legend=tuple(legend),
        notes=(*notes, *_notes(rows)),
    )


def _bars(analysis: Analysis, frame: Frame, entry: _Entry) -> Figure:
    rows = cell_rows(analysis, entry.cells, entry.y, relative_to=entry.relative_to)
    rows = [row for row in rows if row.note != NOT_RUN]
    title, panels = title_of(entry.y, entry.relative_to), []
    if entry.allocators:
        return _compared_bars(frame, entry, rows, title)
    for cell in entry.cells:
        own = [row for row in rows if row.cell == cell.name]
        if own:
            chart = charts.bars(own, frame, title, bool(entry.relative_to), rows)
            name = f"{cell.name}, oversubscribed" if cell.oversubscribed else cell.name
            panels.append(Panel(name, chart))
    return _figure(entry, rows, panels, notes=_origins(analysis, entry))


def _compared_bars(frame: Frame, entry: _Entry, rows: list[Row], title: str) -> Figure:
    """A panel for each allocator and place: a bar for each workload that has a cell there."""
    frame, panels = frame.of_workloads(entry.workloads), []
    rows = [row for row in rows if row.allocator in entry.allocators]
    marks = {cell.name: cell.name.removeprefix(cell.workload).strip() for cell in entry.cells}
    places = list(dict.fromkeys(marks.values()))
    for name in entry.allocators:
        for place in places:
            found = _compared([row for row in rows if marks[row.cell] == place], name)
            if found:
                chart = charts.bars(found, frame, title, bool(entry.relative_to), rows)
                panels.append(Panel(f"{name}, {place}" if len(places) > 1 else name, chart))
    return _figure(entry, rows, panels)


def _scatter(analysis: Analysis, frame: Frame, entry: _Entry) -> Figure:
    base, second = entry.relative_to or analysis.base, entry.y or MEMORY
    cells, others = (
        [cell.name for cell in entry.cells if cell.name in analysis.usable(metric)]
        for metric in (TIME, second)
    )
    names = [
        name
        for name in analysis.shown
        if analysis.completed(name, others) == set(others) and not meaningless(name, second)
    ]
    pairs = [
        (mean_row(analysis, n, TIME, cells, base), mean_row(analysis, n, second, others, base))
        for n in (names if cells else ())
    ]
    rows = [row for pair in pairs for row in pair]
    titles = f"time / {base}", title_of(second, base)
    panels = [Panel("", charts.scatter(pairs, frame, titles))] if pairs else []
    return _figure(entry, rows, panels)


def _heat_map(analysis: Analysis, frame: Frame, entry: _Entry) -> Figure:
    return heat_figure(
        analysis,
        frame,
        entry.cells,
        entry.y,
        entry.relative_to or (None if entry.allocators else analysis.base),
        name=entry.name,
        title=entry.title,
        caption=entry.caption,
    )


def _curve(analysis: Analysis, frame: Frame, entry: _Entry) -> Figure:
    """`y` names the columns of the series, `;` between them; the first may be x."""
    rows, panels = [], []
    for cell in entry.cells:
        found, x_title = [], entry.x
        for name in analysis.shown:
            own, x_title = _curve_rows(analysis, cell, name, entry, x_title)
            found += own
        columns = list(dict.fromkeys(row.metric for row in found if row.value is not None))
        for column in columns:
            own = [row for row in found if row.metric == column and row.value is not None]
            several = len(entry.cells) > 1 or len(columns) > 1
            title = f"{cell.name}: {column}" if several else ""
            panels.append(Panel(title, charts.curves(own, frame, x_title, column)))
        rows += found
    caption = f"{entry.caption} [low, high] are the lowest and the highest of the runs."
    return _figure(entry, rows, panels, frame.names, caption)


def _curve_rows(
    analysis: Analysis, cell: Cell, name: str, entry: _Entry, x_title: str
) -> tuple[list[Row], str]:
    """The median curve of the runs when all have the same x, else the first counted run's; and
    the name of x."""
    arrays = analysis.record.arrays(cell.name, name, entry.series)
    same: dict[str, Any] = {"cell": cell.name, "allocator": name}
    same |= {"workload": cell.workload, "group": cell.group}
    if not arrays:
        note = analysis.record.problem(cell.name, name) or f"no '{entry.series}' in the result"
        return [Row(**same, metric=entry.series, unit="", note=note)], x_title
    xs = [[point[0] for point in array] for array in arrays]
    used = arrays if all(x == xs[0] for x in xs) else arrays[:1]
    columns = min(len(point) for array in used for point in array)
    labels = _column_labels(entry, columns, x_title)
    rows = []
    for column in range(1, columns):
        for at, x in enumerate(xs[0]):
            values = sorted(array[at][column] for array in used)
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
            found: dict[str, Any] = {"value": middle, "low": values[0], "high": values[-1]}
            found |= {"x": x, "runs": len(values)}
            rows.append(Row(**same, metric=labels[column], unit="", **found))
    return rows, labels[0]


def _column_labels(entry: _Entry, columns: int, x_title: str) -> list[str]:
    named = [label.strip() for label in entry.y.split(";")] if entry.y else []
    if len(named) < columns:
        named.insert(0, x_title)
    return named[:columns] + [f"{entry.series} {at}" for at in range(len(named), columns)]


_DRAW = {
    "lines": _lines,
    "bars": _bars,
    "scatter": _scatter,
    "heatmap": _heat_map,
    "curve": _curve,
}
