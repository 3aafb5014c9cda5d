"""What the page says in tables: ranks, counts, failures, noise, machine, versions.

Invariant: whatever was planned and gave no number is in one of these tables, with its reason.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..record import FEWEST_RUNS, Record
from . import charts, style
from .analysis import Analysis
from .charts import Frame
from .figures import Figure, Panel
from .rows import Row, shown

_COUNTED = {  # what the counting run counts, and what every run does
    "mmap": "calls of mmap",
    "munmap": "calls of munmap",
    "madvise": "calls of madvise",
    "minor_faults": "minor page faults",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words under a heading; `allocators` names each row's, so that it can be hidden."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    allocators: tuple[str, ...] = ()
    empty: str = ""


def _rank(number: int | None, ranks: Sequence[int | None]) -> str:
    if number is None:
        return "–"
    return f"{number} =" if ranks.count(number) > 1 else str(number)


def ranks(analysis: Analysis) -> Table:
    """Everyone over the common cells; those whose intervals overlap share a rank."""
    found = analysis.standings
    times = [one.time_rank for one in found]
    memories = [one.memory_rank for one in found]
    return Table(
        (
            "rank in time",
            "allocator",
            f"time / {analysis.base}",
            f"memory / {analysis.base}",
            "rank in memory",
        ),
        tuple(
            (
                _rank(one.time_rank, times),
                one.allocator,
                interval(one.time),
                interval(one.memory),
                _rank(one.memory_rank, memories),
            )
            for one in found
        ),
        tuple(one.allocator for one in found),
    )


def interval(found) -> str:
    return f"{style.ratio(found.value)} [{style.ratio(found.low)}, {style.ratio(found.high)}]"


def numbers(rows: Sequence[Row]) -> Table:
    """The table below a figure."""
    x_used = any(row.x is not None for row in rows)
    heading = ("cell", *(("x",) if x_used else ()), "allocator", "metric", "value", "runs", "note")
    return Table(
        heading,
        tuple(
            (
                row.cell + (" (oversubscribed)" if row.oversubscribed else ""),
                *((style.number(row.x),) if x_used else ()),
                row.allocator,
                row.metric,
                shown(row) if row.value is not None else "–",
                str(row.runs),
                row.note,
            )
            for row in rows
        ),
        tuple(row.allocator for row in rows),
    )


def counts(analysis: Analysis, frame: Frame) -> Figure | None:
    """Sums over the cells that everyone shown completed and was counted in."""
    record = analysis.record
    names = [name for name in analysis.shown if name != "limit"]
    cells = [
        cell.name
        for cell in record.cells
        if all(_calls(record, cell.name, name) is not None for name in names)
    ]
    if not cells:
        return None
    rows, panels = [], []
    for key, title in _COUNTED.items():
        own = [_sum_row(record, cells, name, key) for name in names]
        if any(row.value for row in own):
            panels.append(Panel(title, charts.bars(own, frame, title, False, own)))
            rows += own
    caption = f"Sums over the {len(cells)} cells that every allocator here completed, one run each."
    title = "System calls and faults"
    return Figure("counts", title, caption, tuple(rows), tuple(panels))


def _calls(record: Record, cell: str, name: str) -> dict | None:
    count = record.counts.get((cell, name))
    if count is None or record.problem(cell, name):
        return None
    return count.get("syscalls") or None  # empty when counting failed


def _sum_row(record: Record, cells: Sequence[str], name: str, key: str) -> Row:
    total = 0.0
    for cell in cells:
        if key == "minor_faults":
            values = list(record.series(cell, name, key).values())
            total += statistics.median(values) if values else 0
        else:
            total += (_calls(record, cell, name) or {}).get(key, 0)
    return Row(f"sum of {len(cells)} cells", name, key, "", value=total, runs=1)


def failures(record: Record) -> Table:
    return Table(
        ("cell", "allocator", "rounds", "what happened"),
        tuple(
            (one.cell, one.allocator, ", ".join(map(_round, one.rounds)), one.reason)
            for one in record.failures()
        ),
        empty="No run failed.",
    )


def _round(number: int) -> str:
    return str(number) if number > 0 else "warm-up"


def missing(record: Record) -> Table:
    """What was planned and could not be run at all."""
    rows = [("allocator", a.name, a.missing) for a in record.allocators if a.missing]
    rows += [("cell", c.name, c.missing) for c in record.cells if c.missing]
    return Table(("what", "name", "why"), tuple(rows), empty="Nothing that was planned is missing.")


def noisy(record: Record) -> Table:
    rows = [
        (cell.name, name.name, f"{100 * (record.spread(cell.name, name.name) or 0):.0f} %")
        for cell in record.cells
        for name in record.allocators
        if record.noisy(cell.name, name.name)
    ]
    return Table(("cell", "allocator", "relative MAD"), tuple(rows), empty="No cell is noisy.")


def unranked(record: Record) -> Table:
    """Cells that rank nobody, and why."""
    rows = []
    for cell in record.cells:
        few = [a.name for a in record.allocators if record.few_runs(cell.name, a.name)]
        if few:
            rows.append((cell.name, f"fewer than {FEWEST_RUNS} counted runs: {', '.join(few)}"))
        if record.insensitive(cell.name):
            share = 100 * (record.malloc_share(cell.name) or 0)
            why = f"insensitive: {share:.1f} % of its time in malloc and free under glibc"
            rows.append((cell.name, why))
    return Table(("cell", "why"), tuple(rows), empty="Every cell may rank.")


def versions(record: Record) -> Table:
    return Table(
        ("allocator", "version", "flags", "library"),
        tuple(
            (a.name, a.version or "–", a.flags or "–", a.library or "–") for a in record.allocators
        ),
    )


def machine(record: Record) -> Table:
    plan, found = record.plan, dict(record.plan.get("machine") or {})
    kib = found.pop("memory_kib", None)
    rows = [(key.replace("_", " "), str(value)) for key, value in found.items()]
    if kib:
        rows.insert(2, ("memory", f"{kib / (1 << 20):.1f} GiB"))
    rows += [
        ("measured", plan.get("date", "–")),
        ("commit", plan.get("commit") or "–"),
        ("plan’s hash", plan.get("plan_hash", "–")[:16]),
        ("rounds", f"{plan.get('rounds', '–')}, and {plan.get('warm_up', 0)} of warm-up"),
        ("resumed", f"{record.resumes} times" if record.resumes else "no"),
    ]
    return Table(("what", "value"), tuple(rows))
