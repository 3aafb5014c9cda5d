"""Figures of counts and of latencies, which every report has.

Invariant: an allocator that could not be counted does not suppress a figure. If it has much fewer
cells than the others, the figure leaves it out and names it.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from nearlab.report import charts
from nearlab.report.analysis import Analysis
from nearlab.report.charts import Frame
from nearlab.report.figures import Figure, Panel
from nearlab.report.rows import Row, mean_row
from nearlab.results import stats
from nearlab.results.record import LIMIT, Record

_ENOUGH = 0.6  # share of the cells of the allocator that has the most
_COUNTED = {  # counts of the counting run, and of every run
    "mmap": "calls of mmap",
    "munmap": "calls of munmap",
    "madvise": "calls of madvise",
    "minor_faults": "minor page faults",
}
_LATENCIES = {
    f"{call}_{key}_ns": f"{call}, {name}"
    for call in ("malloc", "free")
    for key, name in (("p50", "median"), ("p99", "99 %"), ("p99_9", "99.9 %"))
}
_Known = Callable[[str, str], object]  # by cell and allocator; false: there is no number


def _shared(
    analysis: Analysis, names: Sequence[str], known: _Known
) -> tuple[list[str], list[str], tuple[str, ...]]:
    """Returns the allocators with enough cells, the cells they share, and a note that names the
    others. A cell without the limit counts."""
    cells = [cell.name for cell in analysis.record.cells]
    done = {name: {cell for cell in cells if known(cell, name)} for name in names}
    most = max((len(found) for name, found in done.items() if name != LIMIT), default=0)
    enough = [n for n in names if n != LIMIT and len(done[n]) >= max(1, _ENOUGH * most)]
    common = [cell for cell in cells if enough and all(cell in done[name] for name in enough)]
    kept = [name for name in names if done[name].issuperset(common)]
    out = [f"{name} (has {len(done[name])} of {most})" for name in names if name not in kept]
    return kept, common, (f"Not here: {', '.join(out)}.",) if out and most else ()


def counts(analysis: Analysis, frame: Frame) -> Figure | None:
    """Sums over the cells in which all shown allocators were counted."""
    record = analysis.record
    names, cells, notes = _shared(
        analysis,
        [name for name in analysis.compared if name != LIMIT],
        lambda cell, name: record.system_calls(cell, name) is not None,
    )
    rows, panels = [], []
    for key, title in _COUNTED.items():
        own = [_sum_row(record, cells, name, key) for name in names]
        if any(row.value for row in own):
            panels.append(Panel(title, charts.bars(own, frame, title, False, own)))
            rows += own
    caption = (
        f"Sums over the {analysis.told(cells)} that every allocator here completed: calls are of "
        "one counting run, minor faults are medians of the counted rounds."
    )
    title = "System calls and faults"
    figure = Figure("counts", title, caption, tuple(rows), tuple(panels), notes=notes)
    return figure if rows else None


def _sum_row(record: Record, cells: Sequence[str], name: str, key: str) -> Row:
    total, runs = 0.0, 1
    if key == "minor_faults":
        series = [list(record.series(cell, name, key).values()) for cell in cells]
        total = sum(statistics.median(values) for values in series if values)
        runs = min(map(len, series), default=0)
    else:
        total = sum((record.system_calls(cell, name) or {}).get(key, 0) for cell in cells)
    return Row(f"sum of {len(cells)} cells", name, key, "", value=total, runs=runs)


def instructions(analysis: Analysis, frame: Frame) -> Figure | None:
    """Geometric means of callgrind's counts relative to the baseline's; exact, so one run is
    enough."""
    found = {
        place: record["instructions"]
        for place, record in analysis.record.extras["instructions"].items()
        if record.get("instructions")
    }
    names, cells, notes = _shared(
        analysis, analysis.compared, lambda cell, name: found.get((cell, name))
    )
    if not cells:
        return None
    base = analysis.base if analysis.base in names else names[0]
    rows = []
    for name in names:
        parts = [found[cell, name] / found[cell, base] for cell in cells]
        about: dict[str, Any] = {"unit": f"of {base}", "relative_to": base, "runs": 1}
        value = float(f"{stats.geometric_mean(parts):.12g}")
        cell = f"geometric mean of {len(cells)}"
        rows.append(Row(cell, name, "instructions", value=value, **about))
    caption = (
        f"Geometric means over {analysis.told(cells)}, counted by callgrind in one run of the "
        "whole program. Less is better."
    )
    chart = charts.bars(rows, frame, f"instructions / {base}", True, rows)
    title = f"Instructions relative to {base}"
    return Figure("instructions", title, caption, tuple(rows), (Panel("", chart),), notes=notes)


def latencies(analysis: Analysis, frame: Frame) -> Figure | None:
    """Geometric means of the percentiles of malloc and free, relative to the baseline."""
    base, record = analysis.base, analysis.record
    parts, notes = {}, []
    for key, title in _LATENCIES.items():

        def known(cell: str, name: str, key: str = key) -> bool:
            above, below = record.paired(cell, name, base, (key, key))
            return bool(above) and min(above + below) > 0

        others = [name for name in analysis.compared if name != base]
        names, cells, left_out = _shared(analysis, others, known)
        if cells:
            panel = f"{title}, {analysis.told(cells)}"
            parts[panel] = [mean_row(analysis, name, key, cells, base) for name in names]
            notes += [f"{title}: {note}" for note in left_out]
    rows = [row for own in parts.values() for row in own]
    panels = [
        Panel(panel, charts.bars(own, frame, f"ns / {base}", True, rows))
        for panel, own in parts.items()
    ]
    caption = (
        f"Geometric means of percentiles relative to {base}, with 95 % intervals, over the cells "
        "in which every allocator here has them above 0 ns. One call in 61 is timed, in buckets of "
        "12.5 %, less the clock's own cost, which is larger than a fast malloc."
    )
    title = "Latency of malloc and free"
    figure = Figure("latencies", title, caption, tuple(rows), tuple(panels), notes=tuple(notes))
    return figure if rows else None
