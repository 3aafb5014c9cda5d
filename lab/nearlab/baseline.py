"""Measures nearmalloc beside its peers over all rows and prints the tables and the verdicts.

Every ratio carries the 95 % interval of its interleaved runs. The raw runs (JSON lines) and the
summary (a figure) are written to build/lab.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import cases, figure, instructions, peers, places, rows, stats, targets
from .cases import Results
from .peers import Allocator
from .rows import SPEED, STEADY, Row
from .targets import OURS, Counts, Verdict

_QUICK_ROUNDS = 3
# Counting is slow and its result does not vary, so --quick counts only these.
_QUICK_COUNTED = ("glibc", OURS, "mimalloc3")


def run(
    *,
    rounds: int,
    quick: bool,
    only: Sequence[str],
    allocators: Sequence[str],
    out: Console,
) -> list[Verdict]:
    """Measures the chosen rows, prints the tables, and returns the verdicts."""
    chosen = [] if list(only) == ["instructions"] else rows.select(only)
    found = peers.ensure(tuple(allocators) or peers.CORE)
    for allocator in found:
        state = allocator.version if allocator.available else f"missing: {allocator.missing}"
        out.print(f"{allocator.label:12} {state}", highlight=False)

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    raw = places.results_dir() / f"baseline-{stamp}.jsonl"
    results = _measure(chosen, found, min(rounds, _QUICK_ROUNDS) if quick else rounds, quick, raw)
    counts = _count(found, quick) if not only or "instructions" in only else None

    if counts:
        out.print(instruction_table(found, counts))
    if results:
        _print_results(out, results, chosen)
    verdicts = targets.verdicts(results, counts)
    if only:  # the user did not ask for the other rows
        verdicts = [verdict for verdict in verdicts if verdict.reached is not None]
    out.print(verdict_table(verdicts, quick))
    out.print(f"raw runs: {_shown(raw)}", highlight=False)
    if results:
        picture = raw.with_suffix(".png")
        figure.draw(results, [row.name for row in SPEED], picture)
        out.print(f"figure: {_shown(picture)}", highlight=False)
    return verdicts


def _measure(
    chosen: Sequence[Row], found: Sequence[Allocator], rounds: int, quick: bool, raw: Path
) -> Results | None:
    """Runs the speed rows, then the rows that mostly sleep; --quick runs the latter once."""
    runs = []
    for group, title in ((SPEED, "speed"), (STEADY, "steady")):
        chosen_cases = [
            row.case(quick) for row in group if row in chosen for _ in range(row.repeats)
        ]
        if not chosen_cases:
            continue
        once = quick and group is STEADY
        results = cases.measure_all(
            chosen_cases,
            found,
            rounds=1 if once else rounds,
            raw=raw,
            warm_up=not once,
            title=title,
        )
        runs += results.runs
    return Results(runs, found) if runs else None


def _count(found: Sequence[Allocator], quick: bool) -> Counts:
    counted = [a for a in found if not quick or a.name in _QUICK_COUNTED]
    with Console(stderr=True).status("counting instructions") as status:
        return instructions.count(counted, advance=lambda what: status.update(f"counted {what}"))


def _print_results(out: Console, results: Results, chosen: Sequence[Row]) -> None:
    speed = [row for row in chosen if row in SPEED]
    if speed:
        out.print(
            ratio_table("Time, seconds", results, speed, "seconds", ("mimalloc3", "mimalloc2"))
        )
        out.print(memory_table(results, speed))
    steady = {row.name for row in chosen if row in STEADY}
    for row in ("fragmentation stretches", "fragmentation random"):
        if row in steady:
            out.print(fragmentation_table(results, row))
    if steady & {"idle", "idle threads"}:
        out.print(idle_table(results))


def instruction_table(found: Sequence[Allocator], counts: Counts) -> Table:
    names = [a for a in found if a.name in counts]
    table = _table("Instructions per malloc and free", ["mode", "size", "limit"], names)
    for (mode, size), limit in targets.INSTRUCTION_LIMITS.items():
        values = [counts[a.name].get((mode, size), "-") for a in names]
        cells = [v if isinstance(v, str) else f"{v:.1f}" for v in values]
        table.add_row(mode, str(size), str(limit), *cells)
    return table


def ratio_table(
    title: str, results: Results, chosen: Sequence[Row], metric: str, references: Sequence[str]
) -> Table:
    """Shows all allocators' medians, and nearmalloc's ratio to each reference with its interval."""
    names = [a for a in results.allocators if a.available]
    known = [a for a in names if a.name in references]
    table = _table(title, ["row"], names)
    for reference in known:
        table.add_column(f"ours / {reference.label}", justify="right")
    for row in chosen:
        cells = [_median_cell(results, row.name, a.name, metric, _seconds) for a in names]
        ratios = [_ratio_cell(results, [row.name], reference.name, metric) for reference in known]
        table.add_row(row.name, *cells, *ratios)
    table.add_section()
    _add_means(table, "all rows", results, chosen, metric, names, known)
    together = [row for row in chosen if row.threads > 1]
    _add_means(table, "multi-threaded", results, together, metric, names, known)
    return table


def _add_means(table: Table, label: str, results, chosen, metric, names, known) -> None:
    """Adds geometric means: each allocator / the first reference, nearmalloc / each reference."""
    rows_of = [row.name for row in chosen]
    base = known[0].name if known else OURS
    cells = [_ratio_cell(results, rows_of, base, metric, of=a.name, short=True) for a in names]
    means = [_ratio_cell(results, rows_of, reference.name, metric) for reference in known]
    table.add_row(f"{label}, of {base}", *cells, *means)


def memory_table(results: Results, chosen: Sequence[Row]) -> Table:
    names = [a for a in results.allocators if a.available]
    table = _table("Memory, MiB: peak RSS and page tables", ["row"], names)
    table.add_column("ours / smallest", justify="right")
    table.add_column("ours / jemalloc", justify="right")
    for row in chosen:
        cells = [_median_cell(results, row.name, a.name, "memory_kib", _mebibytes) for a in names]
        smallest = targets.smallest_peer(results, row.name)
        against = "-" if smallest is None else smallest[0]
        table.add_row(
            row.name,
            *cells,
            _ratio_cell(results, [row.name], against, "memory_kib"),
            _ratio_cell(results, [row.name], "jemalloc", "memory_kib"),
        )
    table.add_section()
    names_of = [row.name for row in chosen]
    means = [
        _ratio_cell(results, names_of, "jemalloc", "memory_kib", of=a.name, short=True)
        for a in names
    ]
    total = _ratio_cell(results, names_of, "jemalloc", "memory_kib")
    table.add_row("all rows, of jemalloc", *means, "", total)
    return table


def fragmentation_table(results: Results, row: str) -> Table:
    names = [a for a in results.allocators if a.available]
    table = _table(f"{row.capitalize()}: heap, MiB", ["state"], names)
    states = {
        "live": "live_kib",
        "RSS, full": "heap_full_kib",
        "RSS, 90 % freed": "heap_freed_kib",
        "RSS, after 2 s": "heap_rested_kib",
        "page tables": "pte_rested_kib",
    }
    for label, metric in states.items():
        table.add_row(
            label, *[_median_cell(results, row, a.name, metric, _mebibytes) for a in names]
        )
    for label, base, of in (("RSS / live", "live_kib", None), ("RSS / glibc", None, "glibc")):
        cells = []
        for a in names:
            above = results.series(row, a.name, "heap_rested_kib")
            below = results.series(row, of or a.name, base or "heap_rested_kib")
            cells.append(f"{stats.ratio(above, below).value:.2f}" if above and below else "-")
        table.add_row(label, *cells)
    return table


def idle_table(results: Results) -> Table:
    names = [a for a in results.allocators if a.available]
    table = _table("Idle, KiB", ["what"], names)
    for label, row, metric in (
        ("a process that does nothing", "idle", "memory_kib"),
        ("each of 200 idle threads", "idle threads", "retained_kib_per_thread"),
    ):
        table.add_row(
            label, *[_median_cell(results, row, a.name, metric, "{:.0f}".format) for a in names]
        )
    return table


def verdict_table(verdicts: Sequence[Verdict], quick: bool) -> Table:
    title = "Targets (quick: scaled down, indicative only)" if quick else "Targets"
    table = Table(title=title, title_justify="left")
    table.add_column("target")
    table.add_column("found")
    table.add_column("verdict")
    words = {True: "[green]reached", False: "[red]missed", None: "[yellow]not measured"}
    for verdict in verdicts:
        table.add_row(verdict.target, verdict.found, words[verdict.reached])
    reached = sum(verdict.reached is True for verdict in verdicts)
    table.caption = f"{reached} of {len(verdicts)} reached"
    return table


def _table(title: str, heads: Sequence[str], names: Sequence[Allocator]) -> Table:
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for allocator in names:
        table.add_column(allocator.label, justify="right")
    return table


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _mebibytes(kib: float) -> str:
    return f"{kib / 1024:.1f}"


def _median_cell(
    results: Results, row: str, allocator: str, metric: str, shown: Callable[[float], str]
) -> str:
    series = results.series(row, allocator, metric)
    if series:
        return shown(stats.median(series))
    failures = results.failures(row, allocator)
    return failures[0] if failures else "-"


def _ratio_cell(
    results: Results,
    names: Sequence[str],
    reference: str,
    metric: str,
    *,
    of: str = OURS,
    short: bool = False,
) -> str:
    pairs = [(results.series(n, of, metric), results.series(n, reference, metric)) for n in names]
    if not pairs or not all(above and below for above, below in pairs):
        return "-"
    found = stats.geometric_mean_of_ratios(pairs)
    return f"{found.value:.2f}" if short else str(found)


def _shown(path: Path) -> str:
    return str(path.relative_to(places.ROOT))
