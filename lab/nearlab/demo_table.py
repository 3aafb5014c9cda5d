"""The demo's figures: medians, ratios and their spread; the table made of them.

Invariant: ratio = median(candidate) / median(baseline) over the counted rounds; spread = the median absolute deviation of
the rounds' own ratios, so that what disturbs both runs of a round alike does not widen it.
Touched by: anyone; everything here is pure.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from .demo_run import Record

MEASURES = ("time", "CPU time", "peak memory")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity of one program under both allocators, medians over the rounds."""

    baseline: float
    candidate: float
    spread: float

    @property
    def ratio(self) -> float:
        return self.candidate / self.baseline


@dataclass(frozen=True, slots=True)
class Row:
    """A program's line: its comparisons in the order of MEASURES, or its problem."""

    name: str
    title: str
    rounds: int
    comparisons: tuple[Comparison, ...]
    problem: str | None = None


def compare(baseline: Sequence[float], candidate: Sequence[float]) -> Comparison:
    """Compares paired values. Requires: equal lengths, at least one pair, positive values."""
    ratios = [c / b for b, c in zip(baseline, candidate, strict=True)]
    middle = statistics.median(ratios)
    spread = statistics.median(abs(ratio - middle) for ratio in ratios)
    return Comparison(statistics.median(baseline), statistics.median(candidate), spread)


def rows_of(records: Iterable[Record], baseline: str, candidate: str) -> list[Row]:
    """A row for each program, in the order of the first runs; the warm-up is judged but not counted."""
    of_program: dict[str, list[Record]] = {}
    for record in records:
        of_program.setdefault(record.step.program.name, []).append(record)
    return [_row(name, group, baseline, candidate) for name, group in of_program.items()]


def _row(name: str, records: list[Record], baseline: str, candidate: str) -> Row:
    title = records[0].step.program.title
    for record in records:
        if record.problem:
            when = f"round {record.step.round}" if record.step.round else "warm-up"
            return Row(name, title, 0, (), f"{record.step.allocator.name}, {when}: {record.problem}")
    values: dict[str, dict[int, tuple[float, ...]]] = {baseline: {}, candidate: {}}
    for record in records:
        sample = record.run.sample
        if record.step.round and sample:
            values[record.step.allocator.name][record.step.round] = (
                record.run.wall_s,
                sample.cpu_s,
                sample.peak_total_kib / 1024,
            )
    rounds = sorted(values[baseline].keys() & values[candidate].keys())
    if not rounds:
        return Row(name, title, 0, (), "no complete round")
    comparisons = tuple(
        compare([values[baseline][n][i] for n in rounds], [values[candidate][n][i] for n in rounds])
        for i in range(len(MEASURES))
    )
    return Row(name, title, len(rounds), comparisons)


def geometric_means(rows: Iterable[Row]) -> tuple[float, ...]:
    """The mean ratio of each measure over the programs that count; empty when there are none."""
    counted = [row.comparisons for row in rows if not row.problem]
    if not counted:
        return ()
    return tuple(
        math.exp(statistics.fmean(math.log(comparison.ratio) for comparison in column))
        for column in zip(*counted, strict=True)
    )


def render(rows: Sequence[Row], baseline: str, candidate: str) -> Table:
    """The table for a terminal; below 1 the candidate is better."""
    table = Table(box=box.SIMPLE_HEAD, title=f"{candidate} / {baseline}: below 1 is better", title_justify="left")
    table.add_column("program", no_wrap=True)
    for measure in MEASURES:
        unit = "MiB" if measure == "peak memory" else "s"
        table.add_column(measure, justify="right", no_wrap=True)
        table.add_column(unit, justify="right", no_wrap=True, style="dim")
    for row in rows:
        if row.problem:
            table.add_row(row.title, Text("failed", style="bold red"))
            continue
        cells = [row.title]
        for measure, comparison in zip(MEASURES, row.comparisons, strict=True):
            digits = 0 if measure == "peak memory" else 2
            cells.append(f"{_colored(comparison)} ±{comparison.spread:.2f}")
            cells.append(f"{comparison.baseline:.{digits}f} → {comparison.candidate:.{digits}f}")
        table.add_row(*cells)
    means = geometric_means(rows)
    if len(rows) > 1 and means:
        table.add_section()
        # The mean has no spread and no absolute values; its digits stand under those of the ratios.
        table.add_row("geometric mean", *(cell for mean in means for cell in (f"[bold]{mean:.2f}[/]      ", "")))
    return table


def _colored(comparison: Comparison) -> str:
    """Green or red only where the spread does not explain it."""
    text = f"{comparison.ratio:.2f}"
    if comparison.ratio + comparison.spread < 0.98:
        return f"[green]{text}[/]"
    if comparison.ratio - comparison.spread > 1.02:
        return f"[red]{text}[/]"
    return text
