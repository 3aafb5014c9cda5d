"""The figures of every report: time against memory, heat-maps, means by group.

Invariant: a figure names what it leaves out; its caption says which paper's parameters it has.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearlab.report import charts, style, verdict
from nearlab.report.analysis import MEMORY, TIME, Analysis
from nearlab.report.charts import Chart, Frame
from nearlab.report.rows import Row, cell_rows, deciding, mean_row
from nearlab.results.record import LIMIT, ORIGINS, Cell


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
    setting: str = ""  # cells, date and machine, for the picture

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


def heading(analysis: Analysis, origin: str, cells: Sequence[str]) -> str:
    """The title of a group's panel."""
    return f"{ORIGINS[origin]}, {analysis.told(cells)}"


def time_against_memory(analysis: Analysis, frame: Frame) -> Figure:
    """The summary: every allocator's mean time and memory in each group, with both intervals."""
    base = analysis.base
    titles = f"time / {base} (← less is better)", f"{_memory(analysis)} / {base}"
    rows, panels, told = [], [], []
    for origin in analysis.origins:
        time, memory = analysis.common(TIME, origin), analysis.common(MEMORY, origin)
        pairs = [
            (
                mean_row(analysis, one.allocator, TIME, time, base, origin),
                mean_row(analysis, one.allocator, MEMORY, memory, base, origin),
            )
            for one in analysis.standings(origin)
            if one.memory and one.time
        ]
        if pairs:
            panels.append((heading(analysis, origin, time), pairs))
            rows += [row for pair in pairs for row in pair]
            told.append(f"{ORIGINS[origin]}: {verdict.told(analysis, origin)}")
    out = analysis.left_out()
    alone = len(panels) == 1
    return Figure(
        name="time-against-memory",
        title=_result(analysis) or "Time against memory",
        caption=(
            f"Geometric means relative to {base} over the cells that every allocator here "
            f"completed ({'; '.join(told)}), with 95 % intervals; thin lines: if one row is left "
            f"out. Lower left is better. {machine_line(analysis)}"
        ),
        rows=tuple(rows),
        panels=tuple(
            Panel("" if alone else title, charts.scatter(pairs, frame, titles, narrow=not alone))
            for title, pairs in panels
        ),
        notes=((f"Not here: {', '.join(out)}.",) if out else ()) + deciding(rows),
        setting=f"{'; '.join(told)}. {machine_line(analysis)}",
    )


def _memory(analysis: Analysis) -> str:
    """What the memory is: an earlier version did not measure the empty process."""
    return style.metric(MEMORY if analysis.record.empty_kib else "memory_kib").label


def machine_line(analysis: Analysis) -> str:
    """When and where it was measured."""
    plan = analysis.record.plan
    machine = plan.get("machine") or {}
    return (
        f"{plan.get('date', '')[:10]}, {machine.get('cpu', 'unknown processor')}, "
        f"{machine.get('cpus', '?')} CPUs, {plan.get('rounds', '?')} rounds."
    )


def _result(analysis: Analysis) -> str:
    """The result in a title: the subject's time in every group, or the fastest of each."""
    told = []
    for origin in analysis.origins:
        real = [one for one in analysis.standings(origin) if one.allocator != LIMIT]
        mine = [one for one in real if one.allocator == analysis.subject] or real[:1]
        for one in mine:
            if one.time:
                name = "" if one.allocator == analysis.subject else f"{one.allocator} "
                told.append(f"{name}{style.ratio(one.time.value)} in {ORIGINS[origin]}")
    noun = f"{analysis.subject}’s time" if analysis.subject else "Least time"
    return f"{noun}, relative to {analysis.base}: {', '.join(told)}" if told else ""


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
    """Bars of the means by group: relative to the baseline, and time relative to the limit; memory
    also by size."""
    base = analysis.base
    found = [
        _mean_bars(analysis, frame, TIME, base, "time-ratios", f"Time relative to {base}"),
        _mean_bars(analysis, frame, MEMORY, base, "memory-ratios", f"Memory relative to {base}"),
    ]
    if LIMIT in analysis.shown and base != LIMIT:
        title = "Time relative to the limit"
        found.append(_mean_bars(analysis, frame, TIME, LIMIT, "limit-ratios", title))
    return [figure for figure in (*found, *memory_by_size(analysis, frame)) if figure.panels]


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
    parts = {
        heading(analysis, origin, chosen): [
            mean_row(analysis, one, key, chosen, base, origin) for one in names
        ]
        for origin in analysis.origins
        if (chosen := [cell for cell in cells if cell in analysis.common(key, origin)])
    }
    caption = f"Geometric means over {'; '.join(parts)}, with 95 % intervals."
    caption += _LIMIT if base == LIMIT else " Less is better."
    notes = (f"Left out, faster than the limit: {', '.join(faster.values())}.",) if faster else ()
    return bars_of(name, title, caption, parts, frame, title_of(key, base), notes)


def bars_of(
    name: str,
    title: str,
    caption: str,
    parts: Mapping[str, Sequence[Row]],
    frame: Frame,
    axis: str,
    notes: Sequence[str] = (),
    *,
    ratio: bool = True,
) -> Figure:
    """A panel of bars for each part that has a number, the least first."""
    rows = [row for own in parts.values() for row in own]
    panels = [
        Panel(part, charts.bars(own, frame, axis, ratio, rows))
        for part, own in parts.items()
        if any(row.value is not None for row in own)
    ]
    more = (*notes, *deciding(rows))
    return Figure(name, title, caption, tuple(rows), tuple(panels), notes=more)


def memory_by_size(analysis: Analysis, frame: Frame) -> list[Figure]:
    """Heaps above an empty process by the size of the program, and what an empty process takes."""
    empty, base = analysis.record.empty_kib, analysis.base
    if not empty:
        return []
    names = [name for name in analysis.compared if name != LIMIT]
    sizes: dict[str, list[str]] = {}
    for cell in analysis.common(MEMORY):
        heap = analysis.value(cell, base, MEMORY)
        assert heap is not None, "a common cell has numbers"
        sizes.setdefault(next(word for most, word in _SIZES if heap.value < most), []).append(cell)
    parts = {
        f"{word}, {analysis.told(sizes[word])}": [
            mean_row(analysis, name, MEMORY, sizes[word], base) for name in names if name != base
        ]
        for _, word in _SIZES
        if word in sizes
    }
    small = [cell.name for cell in analysis.record.cells if analysis.small(cell.name)]
    notes = (f"Left out, under 4 MiB under {base}: {', '.join(small)}.",) if small else ()
    fixed = [
        Row("empty process", name, "empty_kib", "MiB", value=round(empty[name] / 1024, 4), runs=5)
        for name in names
        if name in empty
    ]
    return [
        bars_of(
            "memory-by-size",
            "Heap above an empty process, by the size of the program",
            f"Geometric means of peak memory less that of an empty process under the same "
            f"allocator, relative to {base}; the size is that under {base}. All groups.",
            parts,
            frame,
            title_of(MEMORY, base),
            notes,
        ),
        bars_of(
            "fixed-cost",
            "What an empty process takes",
            "Peak memory of a C++ program that allocates and frees one object; medians of five.",
            {"": fixed},
            frame,
            title_of("empty_kib", None),
            ratio=False,
        ),
    ]


_SIZES = (
    (16 << 10, "4 to 16 MiB"),
    (64 << 10, "16 to 64 MiB"),
    (math.inf, "over 64 MiB"),
)
