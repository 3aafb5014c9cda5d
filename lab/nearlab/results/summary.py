"""The summary of a result: ratios to glibc, failures, noisy cells.

Cells that other allocators ran, such as the ablations of a design, have a table of their own, with
ratios to its first allocator. Invariant: a cell of a table holds the median over the runs that
count in a report, too, or says that there is none. The report has the full analysis.
"""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearlab.results import stats
from nearlab.results.record import NOISY, ORIGINS, Cell, Record
from nearlab.results.stats import FEWEST_RUNS

BASE = "glibc"


def show(out: Console, record: Record) -> None:
    """Prints the tables and what they leave out."""
    for one in tables(record):
        out.print(one)
    if any(record.few_runs(*place) for place in record.runs):
        out.print(f"Fewer than {FEWEST_RUNS} counted runs: nothing is ranked from these.")
    if disturbed := record.disturbed():
        every = sum(len(record.counted(*place)) for place in record.runs)
        told = f"{len(disturbed)} of {every} counted runs were disturbed by other work"
        out.print(f"{told} (the first: {disturbed[0].disturbed}).", style="yellow", markup=False)
    for failure in record.failures():
        times = len(failure.rounds)
        line = f"{failure.cell}, {failure.allocator}: {failure.reason} ({times} x)"
        out.print(line, style="red", markup=False, soft_wrap=True)
    for cell in record.cells:
        if cell.missing:
            out.print(f"{cell.name} was not run: {cell.missing}", markup=False)
    for allocator in record.allocators:
        if allocator.missing:
            out.print(f"{allocator.name} is missing: {allocator.missing}", markup=False)


def tables(record: Record) -> list[Table]:
    """Tables of time and of memory: of all cells that glibc ran, and of each set of allocators of
    the others."""
    found = []
    peak = "median peak KiB of the process"
    for metric, noun in (("seconds", "median seconds"), ("memory_kib", peak)):
        if any(record.series(*place, metric) for place in record.runs):
            title = f"{record.plan['title']}: {noun}"
            parts = _parts(record, metric)
            found += [_table(title, *part, record, metric) for part in parts]
    return found


def _parts(record: Record, metric: str) -> list[tuple[list[Cell], Sequence[str]]]:
    """The cells and the allocators of each table."""
    order = [one.name for one in record.allocators if not one.missing]
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in record.cells:
        ran = tuple(
            name
            for name in order
            if record.failed(cell.name, name) or record.series(cell.name, name, metric)
        )
        if ran:
            groups[() if BASE in ran else ran].append(cell)
    beside = [cell.name for cell in groups.get((), ())]
    every = [name for name in order if any(record.counted(cell, name) for cell in beside)]
    return [(cells, ran or every) for ran, cells in groups.items()]


def _table(
    title: str, cells: Sequence[Cell], ran: Sequence[str], record: Record, metric: str
) -> Table:
    base = BASE if BASE in ran else ran[0] if len(ran) > 1 else None
    table = Table(
        title=title + (f", ratio to {base}" if base else ""),
        title_justify="left",
        caption=f"~ noisy: the median deviation is over {NOISY:.0%} of the median",
        caption_justify="left",
    )
    table.add_column("cell")
    for name in ran:
        table.add_column(name, justify="right")
    for origin, heading in ORIGINS.items():
        own = [cell for cell in cells if cell.origin == origin]
        if own and len(own) < len(cells):
            table.add_section()
            table.add_row(f"[dim]{heading}[/]")
        for cell in own:
            marks = [mark for mark in ("oversubscribed", "tuned") if getattr(cell, mark)]
            mark = f" ({', '.join(marks)})" if marks else ""
            shown = (_shown(record, metric, cell.name, one, base) for one in ran)
            table.add_row(escape(cell.name + mark), *shown)
    return table


def _shown(record: Record, metric: str, cell: str, name: str, base: str | None) -> str:
    """Returns the median, or its ratio to the median of `base`."""
    if record.failed(cell, name):
        return "[red]failed[/]"
    values = list(record.series(cell, name, metric).values())
    bases = list(record.series(cell, base, metric).values()) if base else [1.0]
    if not values or not bases:
        return "-"
    mark = "~" if (record.spread(cell, name, metric) or 0) > NOISY else ""
    ratio = stats.median(values) / stats.median(bases)
    return f"{ratio:.2f}{mark}" if base else f"{ratio:.3f}{mark}"
