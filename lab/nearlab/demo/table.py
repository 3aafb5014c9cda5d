"""The demo's figures: ratios of medians with their intervals, and the table made of them.

Invariant: ratio = median(candidate) / median(baseline) over the counted rounds, paired by round;
the interval holds 95 % of the ratios of resampled rounds. Everything here is pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from nearlab import programs
from nearlab.results import stats
from nearlab.results.record import Cell, Record

_KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Measure:
    """A compared quantity: its name in the raw results, its heading, how its values are shown."""

    metric: str
    heading: str
    unit: str
    digits: int
    scale: float = 1.0


MEASURES = (
    Measure("seconds", "time", "s", 2),
    Measure("cpu_s", "CPU time", "s", 2),
    Measure("memory_kib", "peak memory", "MiB", 0, 1 / _KIB_PER_MIB),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity of one program under both allocators, round by round."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def ratio(self) -> stats.Interval:
        return stats.ratio(self.candidate, self.baseline)


@dataclass(frozen=True, slots=True)
class Row:
    """A program's line: its comparisons in the order of MEASURES, or the reason why there are none.
    """

    name: str
    title: str
    comparisons: tuple[Comparison, ...]
    failure: str | None = None


def rows_of(record: Record) -> list[Row]:
    """Returns a row for each program that ran or failed, in the order of the plan."""
    return [_row(record, cell) for cell in record.cells if not cell.missing]


def _row(record: Record, cell: Cell) -> Row:
    title = programs.listed()[cell.program.removeprefix(programs.PREFIX)].title
    baseline, candidate = (one.name for one in record.allocators)
    for name in (baseline, candidate):
        if problem := record.problem(cell.name, name):
            return Row(cell.name, title, (), f"{name}: {problem}")
    metrics = (measure.metric for measure in MEASURES)
    pairs = (record.paired(cell.name, baseline, candidate, (one, one)) for one in metrics)
    comparisons = (Comparison(tuple(before), tuple(after)) for before, after in pairs)
    return Row(cell.name, title, tuple(comparisons))


def geometric_means(rows: Iterable[Row]) -> tuple[stats.Interval, ...]:
    """The mean ratio of each measure over the programs that count; empty when there are none."""
    columns = zip(*(row.comparisons for row in rows if not row.failure), strict=True)
    return tuple(
        stats.geometric_mean_of_ratios([(one.candidate, one.baseline) for one in column])
        for column in columns
    )


def render(rows: Sequence[Row]) -> Table:
    """The table for a terminal: the ratio with its interval, below it the medians."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("program", no_wrap=True)
    for measure in MEASURES:
        table.add_column(measure.heading, no_wrap=True)
    for row in rows:
        cells = [Text.assemble((row.name, "bold"), "\n", (row.title, "dim"))]
        if row.failure:
            cells.append(Text("failed", style="bold red"))
        for measure, comparison in zip(MEASURES, row.comparisons, strict=bool(row.comparisons)):
            cells.append(
                Text.assemble(
                    _styled(comparison.ratio), "\n", (medians(measure, comparison), "dim")
                )
            )
        table.add_row(*cells)
    counted = sum(not row.failure for row in rows)
    if counted > 1:
        table.add_section()
        heading = Text.assemble(("mean", "bold"), (f" of {counted}, geom.", "dim"))
        table.add_row(heading, *(Text.assemble(_styled(mean)) for mean in geometric_means(rows)))
    return table


def medians(measure: Measure, comparison: Comparison) -> str:
    """`BASELINE → CANDIDATE UNIT`."""
    before, after = (
        f"{stats.median(values) * measure.scale:.{measure.digits}f}"
        for values in (comparison.baseline, comparison.candidate)
    )
    return f"{before} → {after} {measure.unit}"


def verdict(ratio: stats.Interval) -> int:
    """-1: the candidate is better, 1: worse, 0: the runs do not say (one run never does)."""
    if ratio.low == ratio.high:
        return 0
    return (ratio.low > 1) - (ratio.high < 1)


def _styled(ratio: stats.Interval) -> tuple[str, str]:
    return str(ratio), {-1: "green", 0: "", 1: "red"}[verdict(ratio)]
