"""The command `compare`: warns of other causes of a difference, shows the changes, judges them.

Invariant: the exit status is 0; 1 with --fail-on-regression if a change is certainly worse; 2 if
the input is bad, if nothing can be compared, or with --fail-on-regression if every change is
unclear: a gate that checked nothing has not passed.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearlab.compare import compare as comparing
from nearlab.compare.compare import Quantity, Row, Settings, Way
from nearlab.compare.load import Measured, load
from nearlab.results import stats
from nearlab.results.journal import JournalError, find
from nearlab.sweeps import gate

_FORMAT = 1
_MACHINE = ("cpu", "cpus", "memory_kib", "kernel", "libc", "huge_pages")
_STYLES = {1: "red", -1: "green", 0: ""}
_WIDTH_OF_A_FILE = 180


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results and the rows that compare them."""

    before: Measured
    after: Measured
    settings: Settings
    rows: list[Row]
    warnings: list[str]
    sweep: list[gate.Change]  # of the summary, if both are sweeps

    @property
    def regressions(self) -> list[Row]:
        return [row for row in self.rows if row.change > 0]


def compare_files(first: Path, second: Path, settings: Settings) -> Comparison:
    """Compares two files. Raises ValueError if there is nothing to compare."""
    before, after = load(first), load(second)
    rows = comparing.rows(before, after, settings)
    if not rows:
        raise ValueError(f"{first} and {second} have nothing in common that can be compared")
    sweep = gate.changes(first, second, settings.thresholds)
    warnings = list(_warnings(before, after, settings))
    return Comparison(before, after, settings, rows, warnings, sweep)


def _warnings(before: Measured, after: Measured, settings: Settings) -> Iterator[str]:
    """Other differences between the files, which may be the cause of a change."""
    if before.path.resolve() == after.path.resolve():
        yield "A and B are the same file"
    for name, file in (("A", before), ("B", after)):
        if not file.record.complete:
            yield f"{name} was interrupted: it is not complete"
    machines = [file.plan.get("machine", {}) for file in (before, after)]
    for key in _MACHINE:
        was, now = (machine.get(key) for machine in machines)
        if was != now:
            yield f"another machine: {key} was {was}, is {now}"
    if before.plan.get("plan_hash") != after.plan.get("plan_hash"):
        yield "another plan: the texts of A's and B's plans differ"
    yield from _allocator_warnings(before, after)
    yield from _cell_warnings(before, after)
    if comparing.reference_of(before, after, settings) is None:
        yield (
            f"no reference: times are B / A, and the drift of the machine is in them "
            f"({settings.reference} is not in both in the same version)"
        )


def _allocator_warnings(before: Measured, after: Measured) -> Iterator[str]:
    for name in before.allocators.keys() | after.allocators.keys():
        was, now = before.allocators.get(name), after.allocators.get(name)
        if was is None or now is None:
            yield f"allocator {name} is only in {'A' if now is None else 'B'}"
            continue
        if comparing.absent(was, now):
            side, why = ("A", was["missing"]) if was.get("missing") else ("B", now["missing"])
            yield f"{name} is missing in {side} and not compared: {why}"
            continue
        for key in ("version", "flags"):
            if was.get(key) != now.get(key):
                yield f"{name}: {key} was {was.get(key)}, is {now.get(key)}"


def _cell_warnings(before: Measured, after: Measured) -> Iterator[str]:
    shared = before.cells.keys() & after.cells.keys()
    for name, cells in (("A", before.cells.keys()), ("B", after.cells.keys())):
        alone = sorted(cells - shared)
        if alone:
            yield f"only in {name}: {_some(alone)}"
    other = sorted(shared - set(comparing.shared_cells(before, after)))
    if other:
        yield f"not compared, for the options of the program differ: {_some(other)}"


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def table(comparison: Comparison, everything: bool) -> Table:
    """The changes, the most important first; `everything` adds the rows that did not change."""
    found = Table(box=box.SIMPLE_HEAD, title_justify="left")
    for heading in ("cell", "allocator", "quantity"):
        found.add_column(heading)
    for heading in ("A", "B", "change", "95 % interval"):
        found.add_column(heading, justify="right")
    found.add_column("verdict")
    found.add_column("note")
    for row in comparison.rows:
        if everything or _worth_showing(row):
            plain = (row.cell, row.allocator, *_figures(row))
            verdict = Text(row.verdict, _STYLES[row.change])
            found.add_row(*map(Text, plain), verdict, Text(row.note))
    return found


def _worth_showing(row: Row) -> bool:
    """True if the change is certain, or unclear with an estimate beyond the threshold."""
    return row.change != 0 or (row.verdict == "unclear" and row.importance > 1)


def _figures(row: Row) -> tuple[str, str, str, str, str]:
    if row.quantity is None:
        return "", "", "", "", ""
    if row.ratio is None or row.before is None or row.after is None:
        return row.quantity.name, "", "", "", ""
    before = _value(row.quantity, row.before, row.relative)
    after = _value(row.quantity, row.after, row.relative)
    edges = f"{_percent(row.ratio.low)} to {_percent(row.ratio.high)}" if row.ratio.known else ""
    return row.quantity.name, before, after, _percent(row.ratio.value), edges


def _value(quantity: Quantity, number: float, relative: bool) -> str:
    if relative:
        return f"{number:.3f} x reference"
    if quantity.way is Way.MEMORY:
        return f"{number / 1024:.1f} MiB"
    if quantity.way is Way.TIME:
        return f"{number:.3g} s"
    return f"{number:,.0f}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def reference_sentence(comparison: Comparison) -> str | None:
    """How the machine's speed changed between the files, measured by the reference."""
    before, after = comparison.before, comparison.after
    reference = comparing.reference_of(before, after, comparison.settings)
    found = comparing.drift(before, after, reference) if reference else []
    if not found:
        return None
    return (
        f"Times are relative to {reference}, whose own time changed by "
        f"{_percent(stats.geometric_mean(found))} ({_percent(min(found))} to "
        f"{_percent(max(found))} over {len(found)} cells)."
    )


def summary(comparison: Comparison) -> str:
    """The result in one sentence."""
    rows = comparison.rows
    count = Counter(row.verdict for row in rows)
    worse = comparison.regressions
    better = sum(row.change < 0 for row in rows)
    cells = len({row.cell for row in rows})
    names = ", ".join(comparing.chosen(comparison.before, comparison.after, comparison.settings))
    first = f" (worst: {_named(worse[0])})" if worse else ""
    plural = "s" if cells > 1 else ""
    return (
        f"B against A, {len(rows)} comparisons of {names} in {cells} cell{plural}: {len(worse)} "
        f"certainly worse{first}, {better} certainly better, {count['unclear']} unclear, "
        f"{count['same']} the same."
    )


def _named(row: Row) -> str:
    if row.quantity is None:
        return f"{row.cell} fails, {row.note}"
    assert row.ratio is not None, "what is certainly worse has a ratio"
    return f"{row.cell}, {row.quantity.name} {_percent(row.ratio.value)}"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison, as JSON for other programs."""
    return {
        "format": _FORMAT,
        "a": str(comparison.before.path),
        "b": str(comparison.after.path),
        "commits": [file.plan.get("commit") for file in (comparison.before, comparison.after)],
        "thresholds": {way.value: part for way, part in comparison.settings.thresholds.items()},
        "warnings": comparison.warnings,
        "reference": reference_sentence(comparison),
        "summary": summary(comparison),
        "regressions": len(comparison.regressions),
        "rows": [_row_json(row) for row in comparison.rows],
        "sweep": [asdict(one) for one in comparison.sweep],
    }


def _row_json(row: Row) -> dict[str, Any]:
    record = asdict(row) | {"quantity": row.quantity.name if row.quantity else None}
    if not math.isfinite(row.importance):
        record["importance"] = None
    if row.ratio is not None and not row.ratio.known:
        record["ratio"] |= {"low": None, "high": None}
    return record


_Percent = Annotated[float, typer.Option(min=0, metavar="PERCENT")]


def compare(
    a: Annotated[str, typer.Argument(help="Results before: a file, PLAN (its newest), PLAN~1.")],
    b: Annotated[str, typer.Argument(help="Results after.")],
    allocators: Annotated[
        str, typer.Option(metavar="NAME,...", help="Whose results (all that are in both).")
    ] = "",
    reference: Annotated[
        str, typer.Option(metavar="NAME", help="Times are relative to it; `none`: B / A.")
    ] = "glibc",
    threshold_time: _Percent = 3,
    threshold_memory: _Percent = 2,
    threshold_instructions: _Percent = 2,
    threshold_calls: _Percent = 50,
    everything: Annotated[bool, typer.Option("--all", help="Shows what is the same, too.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Writes everything to a file.")
    ] = None,
    fail_on_regression: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit status 1 if anything is worse.")
    ] = False,
) -> None:
    """Says what got faster, slower, larger or smaller from results A to results B, with intervals.
    """
    percents = (threshold_time, threshold_memory, threshold_instructions, threshold_calls)
    thresholds = {way: percent / 100 for way, percent in zip(Way, percents, strict=True)}
    names = tuple(name.strip() for name in allocators.split(",") if name.strip())
    try:
        settings = Settings(thresholds, names, reference)
        comparison = compare_files(find(a), find(b), settings)
        if json_file is not None:
            json_file.write_text(json.dumps(to_json(comparison), indent=2) + "\n")
    except (JournalError, ValueError, OSError) as error:
        typer.echo(f"compare: {error}", err=True)
        raise typer.Exit(2) from None
    show(comparison, everything)
    if not fail_on_regression:
        return
    if comparison.regressions or any(one.worse for one in comparison.sweep):
        raise typer.Exit(1)
    if all(row.verdict == "unclear" for row in comparison.rows):
        typer.echo("compare: nothing could be judged: everything is unclear", err=True)
        raise typer.Exit(2)


def show(comparison: Comparison, everything: bool) -> None:
    out = Console(highlight=False)
    if not out.is_terminal:
        out = Console(highlight=False, width=_WIDTH_OF_A_FILE)
    for name, file in (("A", comparison.before), ("B", comparison.after)):
        of = file.plan
        about = f"{of.get('date')}, commit {of.get('commit')}"
        out.print(f"{name}: {file.path} ({about})", markup=False)
    for warning in comparison.warnings:
        out.print(f"warning: {warning}", style="yellow", markup=False)
    found = table(comparison, everything)
    if found.row_count:
        out.print(found)
    if comparison.sweep:
        out.print(gate.table(comparison.sweep))
    sentence = reference_sentence(comparison)
    if sentence:
        out.print(sentence, markup=False)
    out.print(summary(comparison), markup=False)
