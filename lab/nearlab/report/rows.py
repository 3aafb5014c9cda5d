"""The numbers of a figure as rows: what its CSV, its table in the page and its chart are made of.

Invariant: a figure shows its rows and nothing else; a number that is missing is a row with a note.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, TextIO

from nearlab.report import style
from nearlab.report.analysis import Analysis, is_memory, meaningless
from nearlab.results import stats
from nearlab.results.record import Cell


@dataclass(frozen=True, slots=True)
class Row:
    """One number of one allocator with its 95 % interval; `value` None: `note` says why."""

    cell: str
    allocator: str
    metric: str
    unit: str
    relative_to: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0
    spread: float | None = None
    x: float | str | None = None
    workload: str = ""
    group: str = ""
    threads: int | None = None
    oversubscribed: bool = False
    note: str = ""
    without_low: float | None = None  # of a mean: the least and the largest without one of its rows
    without_high: float | None = None
    decides: str = ""  # the row without which the mean changes most


_DECIDES = 1.05
NO_NUMBER, NO_MEANING = "no such number", "no meaning"
HEADER = tuple(field.name for field in fields(Row))


def write_csv(rows: Sequence[Row], file: TextIO) -> None:
    """Writes the rows with all digits, one line a row."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(astuple(row) for row in rows)


def shown(row: Row) -> str:
    """A row's number with its interval, in words."""
    if row.value is None:
        return row.note
    digits = style.ratio if row.relative_to else style.number
    unit = f" {row.unit}" if row.unit else ""
    if row.low is None:
        return f"{digits(row.value)}{unit}"
    return f"{digits(row.value)} [{digits(row.low)}, {digits(row.high)}]{unit}"


def cell_rows(
    analysis: Analysis,
    cells: Iterable[Cell],
    key: str,
    *,
    relative_to: str | None = None,
    axis: str | None = None,
) -> list[Row]:
    """A row for every cell and allocator; with `relative_to` the value is a ratio: to that
    allocator in the cell, or to the like cell of that workload under the allocator."""
    chosen = list(cells)
    return [
        cell_row(analysis, cell, name, key, relative_to, axis, chosen)
        for cell in chosen
        for name in analysis.shown
    ]


def like(analysis: Analysis, cell: Cell, workload: str | None) -> Cell | None:
    """Returns the workload's cell with the same threads and the same value of a common sweep. None
    if the name is an allocator's."""
    if workload in analysis.record.allocator_by_name:
        return None
    for other in analysis.record.cells:
        common = other.x.keys() & cell.x.keys()
        same = other.threads == cell.threads and all(other.x[key] == cell.x[key] for key in common)
        if other.workload == workload and same:
            return other
    return None


def cell_row(
    analysis: Analysis,
    cell: Cell,
    name: str,
    key: str,
    relative_to: str | None,
    axis: str | None,
    cells: Sequence[Cell],
) -> Row:
    record = analysis.record
    metric = style.metric(key)
    found = _find(analysis, cell, name, key, relative_to, cells)
    spread_of = "seconds" if key == "speedup" else key
    return Row(
        cell=cell.name,
        allocator=name,
        metric=key,
        unit=f"of {relative_to}" if relative_to else metric.unit,
        relative_to=relative_to or "",
        **_numbers(found, metric.factor if not relative_to else 1),
        runs=len(record.series(cell.name, name, spread_of)),
        spread=record.spread(cell.name, name, spread_of),
        x=cell.at(axis) if axis else None,
        workload=cell.workload,
        group=cell.group,
        threads=cell.threads,
        oversubscribed=cell.oversubscribed,
        note=_note(analysis, cell.name, name, key, relative_to, bool(found)),
    )


def _numbers(found: stats.Interval | None, factor: float = 1) -> dict[str, Any]:
    """Returns the numbers with twelve digits: further digits are rounding errors of logarithms."""
    if found is None:
        return {}
    named = {"value": found.value}
    if found.known:
        named |= {"low": found.low, "high": found.high}
    return {key: float(f"{value * factor:.12g}") for key, value in named.items()}


def _find(
    analysis: Analysis,
    cell: Cell,
    name: str,
    key: str,
    relative_to: str | None,
    cells: Sequence[Cell],
) -> stats.Interval | None:
    if key == "speedup":
        return _speed_up(analysis, cell, name, cells)
    if other := like(analysis, cell, relative_to):
        return analysis.gain(cell.name, other.name, name, key)
    if relative_to:
        return analysis.ratio(cell.name, name, relative_to, key)
    return analysis.value(cell.name, name, key)


def origin(cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """The cell of the same workload with the fewest threads: where its speed-ups start."""
    same = [other for other in cells if other.workload == cell.workload and other.threads]
    return min(same, key=lambda other: other.threads or 0, default=None)


def _speed_up(
    analysis: Analysis, cell: Cell, name: str, cells: Sequence[Cell]
) -> stats.Interval | None:
    """The baseline's seconds with the fewest threads, over the allocator's seconds here."""
    first = origin(cell, cells)
    if first is None:
        return None
    above = analysis.record.series(first.name, analysis.base, "seconds")
    below = analysis.record.series(cell.name, name, "seconds")
    rounds = sorted(above.keys() & below.keys())
    pair = [above[number] for number in rounds], [below[number] for number in rounds]
    if not rounds or min(pair[0] + pair[1]) <= 0:
        return None
    return stats.ratio(*pair)


def _note(
    analysis: Analysis, cell: str, name: str, key: str, relative_to: str | None, found: bool
) -> str:
    record = analysis.record
    problem = record.problem(cell, name)
    if problem:
        return problem
    if meaningless(name, key):
        return NO_MEANING
    if not found:
        other = None
        if relative_to is not None and relative_to in record.allocator_by_name:
            other = record.problem(cell, relative_to)
        return f"{relative_to}: {other}" if other else NO_NUMBER
    marks = []
    if record.noisy(cell, name):
        marks.append("noisy")
    if record.busy(cell, name):
        marks.append("busy machine")
    if record.few_runs(cell, name):
        marks.append("too few runs to rank")
    if record.insensitive(cell) and not is_memory(key):
        marks.append("insensitive to malloc")
    if record.harness(cell) and not is_memory(key):
        marks.append("mostly harness")
    return ", ".join(marks)


def mean_row(
    analysis: Analysis, name: str, key: str, cells: Sequence[str], base: str, group: str = ""
) -> Row:
    """The geometric mean over the cells, relative to `base`."""
    found = analysis.mean(name, key, cells, base)
    out = analysis.without_one(name, key, cells, base)
    return Row(
        cell=f"geometric mean of {len(cells)}",
        allocator=name,
        metric=key,
        unit=f"of {base}",
        relative_to=base,
        **_numbers(found),
        runs=min((len(analysis.record.series(cell, name, key)) for cell in cells), default=0),
        group=group,
        note="" if found else NO_MEANING if meaningless(name, key) else "not completed",
        without_low=out.low if out else None,
        without_high=out.high if out else None,
        decides=out.row if out else "",
    )


def deciding(rows: Iterable[Row]) -> tuple[str, ...]:
    """Names the rows without which a mean changes by more than a twentieth."""
    found = []
    for row in rows:
        ends = row.value, row.without_low, row.without_high
        value, low, high = (end or 0.0 for end in ends)
        if row.value is not None and row.decides and max(high / value, value / low) > _DECIDES:
            found.append(
                f"{row.allocator}, {style.metric(row.metric).label} {style.ratio(value)}: "
                f"{style.ratio(low)} to {style.ratio(high)} if one row is left out; "
                f"{row.decides} decides."
            )
    return tuple(found)
