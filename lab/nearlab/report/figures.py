"""What a report shows: the plan's figures and those that every report has.

Invariant: a figure names what it leaves out; its caption says which paper's parameters it has.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ..record import LIMIT, NOT_RUN, Cell, RecordError
from . import charts, style
from .analysis import MEMORY, TIME, Analysis, meaningless
from .charts import Chart, Frame
from .rows import Row, cell_rows, mean_row, origin

KINDS = ("lines", "bars", "scatter", "heatmap", "curve")


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of a figure; the title is empty when the figure has only this one."""

    title: str
    chart: Chart


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its numbers. A heat-map has no panel in the page, where it is a table."""

    name: str
    title: str
    caption: str
    rows: tuple[Row, ...]
    panels: tuple[Panel, ...]
    legend: tuple[str, ...] = ()
    heat: Chart | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def alt(self) -> str:
        """What the figure shows, for who cannot see it; the table has the numbers."""
        shown = list(dict.fromkeys(row.allocator for row in self.rows))
        return f"{self.title}. Allocators: {', '.join(shown)}. The numbers are in the table below."


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


def planned(analysis: Analysis, frame: Frame) -> list[Figure]:
    """The figures that the plan asks for, in its order, but those of cells left out by choice."""
    plan = tomllib.loads(analysis.record.plan.get("plan_toml", ""))
    entries = [_entry(analysis, found) for found in plan.get("figure", [])]
    return [_DRAW[entry.kind](analysis, frame, entry) for entry in entries if entry.cells]


def _entry(analysis: Analysis, found: dict) -> _Entry:
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
    )


def _present(analysis: Analysis, name: str | None) -> str | None:
    """What ratios are relative to; glibc, when it was not measured, gives way to who stands in."""
    return analysis.base if name == "glibc" else name


def _title(key: str, relative_to: str | None) -> str:
    found = style.metric(key)
    return f"{found.label} / {relative_to}" if relative_to else found.title


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    """Who has no number where, in a line for each reason."""
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
    rows, panels = [], []
    groups = _by_workload([cell for cell in entry.cells if cell.at(entry.x) is not None])
    if not groups:
        raise RecordError(f"plan: figure '{entry.name}': no cell has a value of '{entry.x}'")
    for workload, cells in groups.items():
        found = cell_rows(analysis, cells, entry.y, relative_to=entry.relative_to, axis=entry.x)
        y_title = _title(entry.y, entry.relative_to)
        chart = charts.lines(found, frame, entry.x, y_title, bool(entry.relative_to))
        panels.append(Panel(workload if len(groups) > 1 else "", chart))
        rows += found
    caption = entry.caption
    if any(row.oversubscribed for row in rows):
        caption += f" More threads than the {frame.cpus} CPUs of this machine: oversubscribed."
    return _figure(entry, rows, panels, frame.names, caption, _origins(analysis, entry))


def _origins(analysis: Analysis, entry: _Entry) -> tuple[str, ...]:
    """What a speed-up is relative to, where it is not glibc with one thread."""
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
    title, panels = _title(entry.y, entry.relative_to), []
    for cell in entry.cells:
        own = [row for row in rows if row.cell == cell.name]
        if own:
            chart = charts.bars(own, frame, title, bool(entry.relative_to), rows)
            name = f"{cell.name}, oversubscribed" if cell.oversubscribed else cell.name
            panels.append(Panel(name, chart))
    return _figure(entry, rows, panels, notes=_origins(analysis, entry))


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
    titles = f"time / {base}", _title(second, base)
    panels = [Panel("", charts.scatter(pairs, frame, titles))] if pairs else []
    return _figure(entry, rows, panels)


def _heat_map(analysis: Analysis, frame: Frame, entry: _Entry) -> Figure:
    return heat_figure(
        analysis,
        frame,
        entry.cells,
        entry.y,
        entry.relative_to or analysis.base,
        name=entry.name,
        title=entry.title,
        caption=entry.caption,
    )


def heat_figure(
    analysis: Analysis,
    frame: Frame,
    cells: Sequence[Cell],
    key: str,
    base: str,
    *,
    name: str,
    title: str,
    caption: str,
) -> Figure:
    """Cells by allocators, grouped as the plan groups them."""
    order = analysis.groups(cell.name for cell in cells)
    by_name = analysis.record.cell_by_name
    ordered = [by_name[cell] for group in order.values() for cell in group]
    rows = cell_rows(analysis, ordered, key, relative_to=base)
    chart = charts.heat_map(rows, frame, [cell.name for cell in ordered])
    return Figure(name, title, caption, tuple(rows), (), heat=chart)


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
    same = {"cell": cell.name, "allocator": name, "workload": cell.workload, "group": cell.group}
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
            found = {"value": middle, "low": values[0], "high": values[-1], "runs": len(values)}
            rows.append(Row(**same, metric=labels[column], unit="", x=x, **found))
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


def time_against_memory(analysis: Analysis, frame: Frame) -> Figure:
    """The honest summary: every allocator's mean time and memory, with both intervals."""
    base = analysis.base
    time, memory = analysis.common(TIME), analysis.common(MEMORY)
    pairs = [
        (
            mean_row(analysis, one.allocator, TIME, time, base),
            mean_row(analysis, one.allocator, MEMORY, memory, base),
        )
        for one in analysis.standings
        if one.memory
    ]
    titles = f"time / {base} (← less is better)", f"peak memory / {base} (← less is better)"
    out = analysis.left_out()
    more = " (memory also of programs that are insensitive)" if len(memory) > len(time) else ""
    return Figure(
        name="time-against-memory",
        title="Time against memory",
        caption=(
            f"Geometric means over the {analysis.told(time)} that every allocator here "
            f"completed{more}, relative to {base}, with 95 % intervals. Lower left is better."
        ),
        rows=tuple(row for pair in pairs for row in pair),
        panels=(Panel("", charts.scatter(pairs, frame, titles)),) if pairs else (),
        notes=(f"Not here: {', '.join(out)}.",) if out else (),
    )


def heat_maps(analysis: Analysis, frame: Frame) -> list[Figure]:
    base = analysis.base
    told = f"Ratio to {base} in every cell; blue is less, orange is more, 1.00 is equal."
    return [
        heat_figure(
            analysis,
            frame,
            analysis.record.cells,
            key,
            base,
            name=f"heat-map-{noun}",
            title=f"{noun.capitalize()}, every workload",
            caption=told,
        )
        for key, noun in ((TIME, "time"), (MEMORY, "memory"))
    ]


def ratios(analysis: Analysis, frame: Frame) -> list[Figure]:
    """Bars of the means by group: relative to the baseline, and time relative to the limit."""
    base = analysis.base
    found = [
        _mean_bars(analysis, frame, TIME, base, "time-ratios", f"Time relative to {base}"),
        _mean_bars(analysis, frame, MEMORY, base, "memory-ratios", f"Memory relative to {base}"),
    ]
    if LIMIT in analysis.shown and base != LIMIT:
        title = "Time relative to the limit"
        found.append(_mean_bars(analysis, frame, TIME, LIMIT, "limit-ratios", title))
    return [figure for figure in found if figure.panels]


_LIMIT = (
    " The limit is a bump pointer with a free that does nothing: the fewest instructions, not the "
    "fewest cache misses. Its lap of memory may miss where a real allocator uses the same block "
    "again, so cells are left out where one is faster."
)


def _faster_than_limit(analysis: Analysis, cells: Sequence[str]) -> dict[str, str]:
    """Cells where the limit is none, for an allocator's whole interval is below it; with whose."""
    found = {}
    for cell in cells:
        ratios = {name: analysis.ratio(cell, name, LIMIT, TIME) for name in analysis.shown}
        faster = {name: one.value for name, one in ratios.items() if one and one.high < 1}
        if faster:
            least = min(faster, key=lambda name: faster[name])
            found[cell] = f"{cell} ({least} {style.ratio(faster[least])})"
    return found


def _mean_bars(
    analysis: Analysis, frame: Frame, key: str, base: str, name: str, title: str
) -> Figure:
    names = [one for one in analysis.compared if one != base]
    common = analysis.common(key)
    cells = [cell for cell in common if cell in analysis.completed(base, common)]
    faster = _faster_than_limit(analysis, cells) if base == LIMIT else {}
    cells = [cell for cell in cells if cell not in faster]
    rows, panels = [], []
    groups = analysis.groups(cells)
    groups = {"all": cells} | groups if len(groups) > 1 else groups
    for group, chosen in groups.items():
        rows += [mean_row(analysis, one, key, chosen, base, group) for one in names]
    for group, chosen in groups.items():
        own = [row for row in rows if row.group == group]
        if any(row.value is not None for row in own):
            chart = charts.bars(own, frame, _title(key, base), True, rows)
            panels.append(Panel(f"{group}, {len(chosen)} cell{'s'[: len(chosen) > 1]}", chart))
    caption = f"Geometric means by group over {analysis.told(cells)}, with 95 % intervals."
    caption += _LIMIT if base == LIMIT else " Less is better."
    notes = (f"Left out, faster than the limit: {', '.join(faster.values())}.",) if faster else ()
    return Figure(name, title, caption, tuple(rows), tuple(panels), notes=notes)
