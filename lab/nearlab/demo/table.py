"""The demo's tables and its sentence of result, of the short programs and of those of --long.

Invariant: ratio = median(nearmalloc) / median(glibc) over the counted rounds, with the lowest and
the highest ratio of a round; a verdict needs three rounds, all on one side of 1. Everything here
is pure.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from nearlab.demo.peak import Peak

WIDTH = 80  # of all that the demo shows
_KIB_PER_MIB = 1024
FEWEST_ROUNDS = 3  # that give a verdict


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
    Measure("memory_kib", "peak memory", "MiB", 0, 1 / _KIB_PER_MIB),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with the lowest and the highest one of a round."""

    low: float
    value: float
    high: float
    rounds: int

    @property
    def verdict(self) -> int:
        """-1: nearmalloc is better in every round, 1: worse in every round, 0: neither is sure."""
        if self.rounds < FEWEST_ROUNDS:
            return 0
        return (self.low > 1) - (self.high < 1)

    def __str__(self) -> str:
        edges = f" [{self.low:.2f}, {self.high:.2f}]" if self.rounds > 1 else ""
        return f"{self.value:.2f}{edges}{' worse' if self.verdict > 0 else ''}"

    def styled(self) -> tuple[str, str]:
        return str(self), {-1: "green", 0: "", 1: "red"}[self.verdict]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity of one program under both allocators, round by round."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def ratio(self) -> Ratio:
        return _ratio(
            statistics.median(self.candidate) / statistics.median(self.baseline), self.by_round()
        )

    def by_round(self) -> list[float]:
        return [after / before for before, after in zip(self.baseline, self.candidate, strict=True)]


@dataclass(frozen=True, slots=True)
class Row:
    """A program's line: its comparisons in the order of MEASURES, or the reason why there are none.
    """

    name: str
    title: str
    comparisons: tuple[Comparison, ...]
    failure: str | None = None


def _ratio(value: float, rounds: Sequence[float]) -> Ratio:
    return Ratio(min(value, *rounds), value, max(value, *rounds), len(rounds))


def geometric_means(rows: Iterable[Row]) -> tuple[Ratio, ...]:
    """The mean ratio of each measure over the programs that count; empty when there are none. The
    range is that of the means of a round."""
    columns = zip(*(row.comparisons for row in rows if not row.failure), strict=True)
    return tuple(
        _ratio(
            statistics.geometric_mean(one.ratio.value for one in column),
            [
                statistics.geometric_mean(ratios)
                for ratios in zip(*(one.by_round() for one in column), strict=False)
            ],
        )
        for column in columns
    )


def render(rows: Sequence[Row]) -> Table:
    """The table of programs: the ratio with its range, below it the medians."""
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
                    comparison.ratio.styled(), "\n", (medians(measure, comparison), "dim")
                )
            )
        table.add_row(*cells)
    counted = sum(not row.failure for row in rows)
    if counted > 1:
        table.add_section()
        heading = Text.assemble(("mean", "bold"), (f" of {counted}, geom.", "dim"))
        table.add_row(heading, *(Text.assemble(one.styled()) for one in geometric_means(rows)))
    return table


def medians(measure: Measure, comparison: Comparison) -> str:
    """`BASELINE → CANDIDATE UNIT`."""
    before, after = (
        f"{statistics.median(values) * measure.scale:.{measure.digits}f}"
        for values in (comparison.baseline, comparison.candidate)
    )
    return f"{before} → {after} {measure.unit}"


def render_peaks(peaks: Sequence[Peak], rest_s: int) -> Table:
    """The table of memory after a peak; its first row, if there is one, is glibc's."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("allocator", no_wrap=True)
    for heading in ("at the peak", f"{rest_s} s later", "of glibc's"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in peaks:
        if one.failure:
            table.add_row(one.title, Text("failed", style="bold red"))
            continue
        share = Text()
        if not peaks[0].failure:
            ratio = one.rested / peaks[0].rested
            share = Text(f"{ratio:.2f}", style=_peak_style(one.name, ratio))
        table.add_row(one.title, f"{one.full:.0f} MiB", f"{one.rested:.0f} MiB", share)
    if used := next((one for one in peaks if not one.failure), None):
        table.add_section()
        amounts = (f"{mib:.0f} MiB" for mib in (used.used_full, used.used_rested))
        table.add_row("used by the program", *amounts)
    return table


def _peak_style(name: str, ratio: float) -> str:
    if name != "nearmalloc" or ratio == 1:
        return ""
    return "green" if ratio < 1 else "red"


def sentence(rows: Sequence[Row], peaks: Sequence[Peak]) -> str:
    """The result in one sentence, made of the numbers alone; empty if there are none."""
    parts = []
    counted = [row for row in rows if not row.failure]
    if counted:
        time_, memory = geometric_means(counted)
        parts.append(
            f"took {time_.value:.2f} of glibc's time{_lost(counted, 0, 'slower')} and "
            f"{memory.value:.2f} of its peak memory{_lost(counted, 1, 'larger')}"
        )
    kept = {one.name: one.rested for one in peaks if not one.failure}
    if {"glibc", "nearmalloc"} <= kept.keys():
        parts.append(
            f"kept {kept['nearmalloc']:.0f} MiB after a peak where glibc kept {kept['glibc']:.0f}"
        )
    return f"nearmalloc {', and '.join(parts)}." if parts else ""


def _lost(rows: Sequence[Row], measure: int, word: str) -> str:
    """` (slower in 1 of 6 programs)`; empty if nearmalloc is worse in none."""
    lost = sum(row.comparisons[measure].ratio.verdict > 0 for row in rows)
    return f" ({word} in {lost} of {len(rows)} programs)" if lost else ""
