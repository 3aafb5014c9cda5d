"""The figures of every report: time against memory, heat-maps, means by group.

Invariant: a figure names what it leaves out; its caption says which paper's parameters it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nearlab.report import charts, style
from nearlab.report.analysis import MEMORY, TIME, Analysis
from nearlab.report.charts import Chart, Frame
from nearlab.report.rows import Row, cell_rows, mean_row
from nearlab.results.record import LIMIT, Cell


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
        """What the figure shows, for readers who cannot see it; the table has the numbers."""
        shown = list(dict.fromkeys(row.allocator for row in self.rows))
        return f"{self.title}. Allocators: {', '.join(shown)}. The numbers are in the table below."


def title_of(key: str, relative_to: str | None) -> str:
    found = style.metric(key)
    return f"{found.label} / {relative_to}" if relative_to else found.title


def heat_figure(
    analysis: Analysis,
    frame: Frame,
    cells: Sequence[Cell],
    key: str,
    base: str | None,
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


def time_against_memory(analysis: Analysis, frame: Frame) -> Figure:
    """The summary: every allocator's mean time and memory, with both intervals."""
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
    """Cells where an allocator's whole interval is below the limit's, with that allocator."""
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
            chart = charts.bars(own, frame, title_of(key, base), True, rows)
            panels.append(Panel(f"{group}, {len(chosen)} cell{'s'[: len(chosen) > 1]}", chart))
    caption = f"Geometric means by group over {analysis.told(cells)}, with 95 % intervals."
    caption += _LIMIT if base == LIMIT else " Less is better."
    notes = (f"Left out, faster than the limit: {', '.join(faster.values())}.",) if faster else ()
    return Figure(name, title, caption, tuple(rows), tuple(panels), notes=notes)
