"""The tables of the page: ranks, failures, noise, machine, versions.

Invariant: every planned run that gave no number is in one of these tables, with its reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nearlab.report import style
from nearlab.report.analysis import MEMORY, TIME, Analysis
from nearlab.report.rows import NO_MEANING, Row, shown
from nearlab.results.record import Allocator, Record, Run
from nearlab.results.stats import FEWEST_RUNS, Interval

_UNCOUNTED = (
    "Not counted: cells that are mostly harness, or hardly call malloc, are ranked in time too. "
    "The option --count, or count = true in the plan, counts both."
)


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


def ranks(analysis: Analysis, origin: str) -> Table:
    """All compared allocators over the common cells of a group; overlapping intervals share a
    rank."""
    found = analysis.standings(origin)
    times = [one.time_rank for one in found]
    memories = [one.memory_rank for one in found]
    base = analysis.base
    return Table(
        (
            *("rank in time", "allocator", f"time / {base}", "with the choice of rows"),
            *("without one row", f"memory / {base}", "with the choice of rows"),
            *("without one row", "rank in memory"),
        ),
        tuple(
            (
                *(_rank(one.time_rank, times), one.allocator),
                *(interval(one.time), edges(one.time_rows)),
                without_one(analysis, one.allocator, TIME, origin),
                *(interval(one.memory), edges(one.memory_rows)),
                without_one(analysis, one.allocator, MEMORY, origin),
                _rank(one.memory_rank, memories),
            )
            for one in found
        ),
        tuple(one.allocator for one in found),
    )


def without_one(analysis: Analysis, allocator: str, metric: str, origin: str) -> str:
    """The range of the means without one row, and the row that decides."""
    out = analysis.without_one(allocator, metric, analysis.common(metric, origin))
    if out is None:
        return "–"
    return f"{style.ratio(out.low)} to {style.ratio(out.high)} ({out.row})"


def edges(found: Interval | None) -> str:
    known = found is not None and found.known
    return f"[{style.ratio(found.low)}, {style.ratio(found.high)}]" if found and known else "–"


def interval(found: Interval | None) -> str:
    return NO_MEANING if found is None else found.shown(style.ratio)


def numbers(rows: Sequence[Row]) -> Table:
    """The table below a figure."""
    x_used = any(row.x is not None for row in rows)
    heading = ("cell", *(("x",) if x_used else ()), "allocator", "metric", "value", "runs", "note")
    return Table(
        heading,
        tuple(
            (
                row.cell + (" (oversubscribed)" if row.oversubscribed else ""),
                *((_x(row.x),) if x_used else ()),
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


def _x(place: float | str | None) -> str:
    return place if isinstance(place, str) else style.number(place)


def failures(record: Record) -> Table:
    return Table(
        ("cell", "allocator", "rounds", "what happened"),
        tuple(
            (one.cell, one.allocator, ", ".join(map(_round, one.rounds)), one.reason)
            for one in record.failures()
        ),
        empty="No run failed.",
    )


def _round(number: int | str) -> str:
    return str(number) if isinstance(number, str) or number > 0 else "warm-up"


def missing(record: Record) -> Table:
    """The planned cells that could not run at all."""
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


def disturbed(record: Record) -> Table:
    """The runs during which the machine did other work, by cell and allocator."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in record.disturbed():
        found.setdefault((run.cell, run.allocator), []).append(run)
    rows = [
        (*place, str(len(runs)), "yes" if record.busy(*place) else "no", str(runs[0].disturbed))
        for place, runs in found.items()
    ]
    heading = ("cell", "allocator", "runs", "among those that count", "what the first saw")
    return Table(heading, tuple(rows), empty="No run was disturbed.")


def unranked(record: Record) -> Table:
    """Cells that rank no allocator, and the reasons."""
    rows = []
    for cell in record.cells:
        few = [a.name for a in record.allocators if record.few_runs(cell.name, a.name)]
        if few:
            rows.append((cell.name, f"fewer than {FEWEST_RUNS} counted runs: {', '.join(few)}"))
        if record.insensitive(cell.name):
            share = 100 * (record.malloc_share(cell.name) or 0)
            why = f"in time, insensitive: {share:.1f} % of it in malloc and free under glibc"
            rows.append((cell.name, why))
        if record.harness(cell.name):
            share = record.harness_share(cell.name) or 0
            why = f"in time: {share:.0%} of its instructions are the harness's"
            rows.append((cell.name, why))
    every = "Every cell may rank." if record.extras["count"] else _UNCOUNTED
    return Table(("cell", "why"), tuple(rows), empty=every)


def harness(record: Record) -> Table:
    """The harness's share of the instructions of every cell in which it was to be counted."""
    rows = []
    for cell in record.cells:
        share, why = record.harness_share(cell.name), record.harness_failure(cell.name)
        if share is not None:
            rows.append((cell.name, f"{share:.0%}"))
        elif why:
            rows.append((cell.name, f"not known: {why}"))
    return Table(("cell", "harness, of all instructions"), tuple(rows), empty=_UNCOUNTED)


def versions(record: Record) -> Table:
    return Table(
        ("allocator", "version", "flags", "environment", "library"),
        tuple(
            (a.name, a.version or "–", a.flags or "–", _environment(a), a.library or "–")
            for a in record.allocators
        ),
    )


def _environment(allocator: Allocator) -> str:
    return " ".join(f"{key}={value}" for key, value in allocator.environment.items()) or "–"


def machine(record: Record) -> Table:
    plan, found = record.plan, dict(record.plan.get("machine") or {})
    kib = found.pop("memory_kib", None)
    rows = [(key.replace("_", " "), str(value)) for key, value in found.items()]
    if kib:
        rows.insert(2, ("memory", f"{kib / (1 << 20):.1f} GiB"))
    if speeds := record.speeds():
        told = f"{min(speeds):.2f} to {max(speeds):.2f} of that before the first run"
        rows.append(("seconds of the speed probe", told))
    rows += [
        ("measured", plan.get("date", "–")),
        ("commit", plan.get("commit") or "–"),
        ("plan’s hash", plan.get("plan_hash", "–")[:16]),
        ("rounds", f"{plan.get('rounds', '–')}, and {plan.get('warm_up', 0)} of warm-up"),
        ("resumed", f"{record.resumes} times" if record.resumes else "no"),
    ]
    return Table(("what", "value"), tuple(rows))
