"""The summary of a result: ratios to glibc, failures, noisy cells.

Cells that other allocators ran, such as the ablations of a design, have a table of their own, with
ratios to its first allocator. Invariant: a cell of a table holds the median over the counted
rounds, or says that there is none. The report has the full analysis, with intervals.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearlab.results import stats
from nearlab.results.journal import Record
from nearlab.results.record import AGAIN, NOISY, ORIGINS
from nearlab.results.stats import FEWEST_RUNS

BASE = "glibc"

Series = dict[tuple[str, str], list[float]]  # by cell and allocator


def show(out: Console, records: Sequence[Record]) -> None:
    """Prints the table and what it leaves out."""
    plan = records[0]
    runs = [record for record in records if record["kind"] == "run" and record["round"] > 0]
    for one in tables(plan, runs):
        out.print(one)
    fewest = min((len(series) for series in _series(runs).values() if series), default=0)
    if fewest < FEWEST_RUNS:
        out.print(f"Fewer than {FEWEST_RUNS} counted runs: nothing is ranked from these.")
    if disturbed := [run["disturbed"] for run in runs if run.get("disturbed")]:
        told = f"{len(disturbed)} of {len(runs)} counted runs were disturbed by other work"
        out.print(f"{told} (the first: {disturbed[0]}).", style="yellow", markup=False)
    for line in failures(records):
        out.print(line, style="red", markup=False, soft_wrap=True)
    for cell in plan["cells"]:
        if cell["missing"]:
            out.print(f"{cell['cell']} was not run: {cell['missing']}", markup=False)
    for allocator in plan["allocators"]:
        if allocator["missing"]:
            out.print(f"{allocator['name']} is missing: {allocator['missing']}", markup=False)


def tables(plan: Record, runs: Iterable[Record]) -> list[Table]:
    """Tables of time and of memory: of all cells that glibc ran, and of each set of allocators of
    the others."""
    every_run = list(runs)
    found = []
    for metric, noun in (("seconds", "median seconds"), ("memory_kib", "median peak KiB")):
        series = _series(every_run, metric)
        title = f"{plan['title']}: {noun}"
        found += [_table(title, *part, series) for part in _parts(plan, series)]
    return found


def _parts(plan: Record, series: Series) -> list[tuple[list[Record], Sequence[str]]]:
    """The cells and the allocators of each table."""
    order = [one["name"] for one in plan["allocators"] if not one["missing"]]
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for cell in plan["cells"]:
        ran = tuple(name for name in order if (cell["cell"], name) in series)
        if ran:
            groups[() if BASE in ran else ran].append(cell)
    beside = {cell["cell"] for cell in groups.get((), ())}
    every = [name for name in order if any((cell, name) in series for cell in beside)]
    return [(cells, ran or every) for ran, cells in groups.items()]


def _table(title: str, cells: Sequence[Record], ran: Sequence[str], series: Series) -> Table:
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
        own = [cell for cell in cells if cell.get("origin", "own") == origin]
        if own and len(own) < len(cells):
            table.add_section()
            table.add_row(f"[dim]{heading}[/]")
        for cell in own:
            name = cell["cell"]
            bases = series[name, base] if base else None
            marks = [mark for mark in ("oversubscribed", "tuned") if cell.get(mark)]
            mark = f" ({', '.join(marks)})" if marks else ""
            shown = (_shown(series.get((name, one)), bases) for one in ran)
            table.add_row(escape(name + mark), *shown)
    return table


def failures(records: Iterable[Record]) -> list[str]:
    """One line for each way in which an allocator failed in a cell."""
    found = Counter(
        (record["cell"], record["allocator"], record["failure"].removeprefix(AGAIN))
        for record in records
        if record.get("failure")
    )
    return [
        f"{cell}, {allocator}: {failure} ({count} x)"
        for (cell, allocator, failure), count in found.items()
    ]


def _series(runs: Iterable[Record], metric: str = "seconds") -> Series:
    """Returns the metric by cell and allocator; empty if a run failed."""
    series: Series = defaultdict(list)
    failed = set()
    for run in runs:
        key = run["cell"], run["allocator"]
        if run["failure"]:
            failed.add(key)
        elif metric in run["metrics"]:
            series[key].append(run["metrics"][metric])
    found = {key: values for key, values in series.items() if key not in failed}
    return found and found | {key: [] for key in failed}


def _shown(values: list[float] | None, base: list[float] | None) -> str:
    """Returns the median, or its ratio to the median of `base`; an empty series failed."""
    if values is None:
        return "-"
    if not values:
        return "[red]failed[/]"
    mark = "~" if stats.relative_spread(values) > NOISY else ""
    if base is None:
        return f"{stats.median(values):.3f}{mark}"
    return f"{stats.median(values) / stats.median(base):.2f}{mark}" if base else "-"
