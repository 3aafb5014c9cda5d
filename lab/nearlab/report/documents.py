"""The command `tables`: tables and numbers of documents, made from raw results in the repository.

A document has a table between two comments, and so each number of a sentence or of a row:

    <!-- table: means docs/data/quick.jsonl.xz -->
    <!-- end of table -->
    <!-- number: mean docs/data/quick.jsonl.xz time nearmalloc own -->0.47 [0.45, 0.50]<!-- end -->
    <!-- number: ratio docs/data/quick.jsonl.xz time tbb glibc larson* -->0.88 to 1.00<!-- end -->
    <!-- number: value docs/data/quick.jsonl.xz memory_kib tbb "a b t=2" -->24.1<!-- end -->

Tables, where "relative" is to the baseline:

- `means [ALLOCATOR...]`: a row for each allocator and group of cells, relative;
- `cells [ALLOCATOR...]`: a row for each cell, relative;
- `beside ALLOCATOR BASE PATTERN...`: time and peak memory of two allocators in the cells of
  patterns, in the order of the patterns;
- `allocators CELL METRIC...`: version and numbers of each allocator in a cell, sorted by the last
  metric;
- `losses`: the cells with a faster allocator, where the interval excludes 1;
- `targets`: the plan's targets; `sweep`: the targets of a sweep; `curves`: the worst points of each
  curve of a sweep;
- `counts ALLOCATOR...`: page faults, system calls and memory in each cell.

Numbers:

- `mean METRIC ALLOCATOR GROUP|PATTERN [BASE]`: a mean over a group or the cells of a pattern;
- `ratio METRIC ALLOCATOR BASE PATTERN [PATTERN]`: two allocators in the cells of a pattern; the
  second pattern names the cells of the base. `ratios` is the list of these ratios;
- `sums METRIC ALLOCATOR BASE PATTERN`: the ratio of the sums over the cells;
- `value METRIC ALLOCATOR PATTERN`: a number in the unit of the page (MiB for `..._kib`);
- `beyond METRIC ALLOCATOR BASE PATTERN`: in how many cells the ratio's interval is above 1;
- `sign SENSE ...`, `side SENSE ...`: whether ratios, or medians of few rounds, agree with a claim:

    <!-- number: sign docs/data/quick.jsonl.xz less time tbb glibc larson* -->weak<!-- end -->

- `machine`, `version ALLOCATOR`, `empty ALLOCATOR`: place and time of the measurement, a version,
  the memory of an empty process in MiB;
- `harness CELL`: the workload's own share of the instructions; `instructions ALLOCATOR CELL`: all;
- `count`: the median over the seeds, of a file of verdicts of the NUMA machine:

    <!-- number: count docs/data/numa/a.jsonl.xz heap.remote CASE ALLOCATOR -->96<!-- end -->

Invariant: the text between the comments is a function of the data; the rest of the document stays.
"""

import fnmatch
import functools
import inspect
import math
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from nearlab import places
from nearlab.report import seeds, style, verdict
from nearlab.report import tables as page_tables
from nearlab.report.analysis import MEMORY, TIME, Analysis
from nearlab.results import record, targets
from nearlab.results.record import ORIGINS, RecordError
from nearlab.results.stats import Interval
from nearlab.sweeps import tables as sweep_tables

_MARKED = re.compile(
    r"(?P<head><!-- table: (?P<words>[^\n]+?) -->\n).*?(?P<foot><!-- end of table -->)", re.DOTALL
)
_NUMBER = re.compile(r"(?P<head><!-- number: (?P<words>[^\n]+?) -->)[^\n]*?(?P<foot><!-- end -->)")
_Digits = Callable[[float], str]
NOISE = 1.09  # a ratio nearer to 1 is no difference
LEVEL = NOISE**2  # an interval within this factor of 1 says that there is none
_Cell = TypeVar("_Cell")
_CALLS = ("madvise", "mmap", "munmap")
_METRICS = {"time": TIME, "heap": MEMORY}  # others are named as in the results


def _means(analysis: Analysis, names: Sequence[str]) -> list[Sequence[str]]:
    base = analysis.base
    rows: list[Sequence[str]] = [
        (
            *("group", "allocator", f"time / {base}", "with the choice of rows"),
            *("without one row", f"memory / {base}"),
        )
    ]
    for origin in analysis.origins:
        told = f"{ORIGINS[origin]}, {verdict.told(analysis, origin)}"
        for one in analysis.standings(origin):
            if not names or one.allocator in names:
                out = page_tables.without_one(analysis, one.allocator, TIME, origin)
                times = page_tables.interval(one.time), page_tables.edges(one.time_rows), out
                memory = page_tables.interval(one.memory)
                rows.append((told, one.allocator, *times, memory))
    return rows


def _cells(analysis: Analysis, names: Sequence[str]) -> list[Sequence[str]]:
    shown = [one for one in names or analysis.compared if one != analysis.base]
    rows: list[Sequence[str]] = [("cell", *(f"{one}: time, memory" for one in shown))]
    for cell in analysis.record.cells:
        found = [
            ", ".join(
                page_tables.interval(analysis.ratio(cell.name, one, analysis.base, metric))
                for metric in (TIME, MEMORY)
            )
            for one in shown
        ]
        rows.append((cell.name, *found))
    return rows


def _losses(analysis: Analysis) -> list[Sequence[str]]:
    lost = [duel for duel in analysis.duels(TIME) if duel.ratio.low > 1]
    rows = [(duel.cell, duel.rival, page_tables.interval(duel.ratio)) for duel in lost]
    return [("cell", "fastest", f"{analysis.subject}'s time / the fastest's"), *rows]


def _beside(
    analysis: Analysis, name: str, base: str, patterns: Sequence[str]
) -> list[Sequence[str]]:
    """No time for a cell whose time says nothing about the allocator."""
    rows: list[Sequence[str]] = [("program", f"time / {base}", f"peak memory / {base}")]
    timed = set(analysis.usable(TIME))
    for pattern in patterns:
        cells = _names(analysis, pattern)
        if not cells:
            raise RecordError(f"there is no cell {pattern!r}")
        for cell in cells:
            time, memory = (
                page_tables.interval(analysis.ratio(cell, name, base, key))
                for key in (TIME, "memory_kib")
            )
            rows.append((cell, time if cell in timed else "–", memory))
    return rows


def _allocators(analysis: Analysis, cell: str, metrics: Sequence[str]) -> list[Sequence[str]]:
    if not _names(analysis, cell):
        raise RecordError(f"there is no cell {cell!r}")
    shown = [style.metric(key) for key in metrics]
    found: list[tuple[str, list[float]]] = []
    for name in analysis.shown:
        values = [one for key in metrics if (one := analysis.value(cell, name, key))]
        if len(values) < len(metrics):
            raise RecordError(f"there is no such number of {name} in {cell!r}")
        pairs = zip(values, shown, strict=True)
        found.append((name, [one.value * metric.factor for one, metric in pairs]))
    rows: list[Sequence[str]] = [("allocator", "version", *(metric.title for metric in shown))]
    for name, numbers in sorted(found, key=lambda one: one[1][-1]):
        about = analysis.record.allocator_by_name[name]
        rows.append((name, about.version, *map(_own_number, numbers)))
    return rows


def _counts(analysis: Analysis, names: Sequence[str]) -> list[Sequence[str]]:
    """Faults and memory are medians of the runs, calls are those of the counting run."""
    heading = (f"cell: {' / '.join(names)}", "page faults", *_CALLS, "peak memory, MiB")
    rows: list[Sequence[str]] = [heading]
    for cell in analysis.record.cells:
        calls = [analysis.record.system_calls(cell.name, one) or {} for one in names]
        faults, memory = (
            [analysis.value(cell.name, one, metric) for one in names]
            for metric in ("minor_faults", "memory_kib")
        )
        found = [
            [f"{one.value:,.0f}" if one else "–" for one in faults],
            *([f"{one[call]:,}" if call in one else "–" for one in calls] for call in _CALLS),
            [style.number(one.value / 1024) if one else "–" for one in memory],
        ]
        rows.append((cell.name, *(" / ".join(one) for one in found)))
    return rows


def _targets(analysis: Analysis) -> list[Sequence[str]]:
    found = targets.verdicts(analysis.record)
    return [
        ("target", "measured", "verdict"),
        *((one.target, one.found, targets.WORDS[one.reached]) for one in found),
    ]


def _table(rows: list[Sequence[str]]) -> str:
    heading, *others = rows
    lines = [heading, ["---"] * len(heading), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _mean(analysis: Analysis, metric: str, name: str, chosen: str, base: str | None = None) -> str:
    """Over the cells of a group that count, or over all of a pattern; never over two groups."""
    key = _METRICS.get(metric, metric)
    if chosen in ORIGINS:
        return page_tables.interval(analysis.mean(name, key, analysis.common(key, chosen), base))
    cells = _names(analysis, chosen)
    groups = {analysis.record.cell_by_name[cell].origin for cell in cells}
    found = analysis.mean(name, key, cells, base) if len(groups) == 1 else None
    if found is None:
        raise RecordError(f"there is no mean over {len(groups)} groups of cells {chosen!r}")
    return page_tables.interval(found)


def _names(analysis: Analysis, pattern: str) -> list[str]:
    return fnmatch.filter((cell.name for cell in analysis.record.cells), pattern)


def _in_cells(
    cells: Sequence[_Cell], pattern: str, of: Callable[[_Cell], Interval | None]
) -> list[Interval]:
    found = [one for cell in cells if (one := of(cell))]
    if not found or len(found) < len(cells):
        raise RecordError(f"there is no such number in each cell {pattern!r}")
    return found


def _span(found: Sequence[Interval], digits: _Digits) -> str:
    """The number of one cell with its interval, or the least and the greatest of several."""
    if len(found) == 1:
        return found[0].shown(digits)
    values = [one.value for one in found]
    return f"{digits(min(values))} to {digits(max(values))}"


def _of_cells(
    analysis: Analysis, metric: str, name: str, base: str, pattern: str, others: str | None = None
) -> list[Interval]:
    """The ratio of two allocators in each cell, or between two cells: in the plan's order."""
    key = _METRICS.get(metric, metric)
    above = _names(analysis, pattern)
    below = above if others is None else _names(analysis, others)
    if len(below) != len(above):
        raise RecordError(f"{len(above)} cells {pattern!r} beside {len(below)} {others!r}")
    return _in_cells(
        list(zip(above, below, strict=True)),
        pattern,
        lambda cells: analysis.gain(*cells, name, key, base=base),
    )


def _ratio(
    analysis: Analysis, metric: str, name: str, base: str, pattern: str, others: str | None = None
) -> str:
    return _span(_of_cells(analysis, metric, name, base, pattern, others), style.ratio)


def _ratios(
    analysis: Analysis, metric: str, name: str, base: str, pattern: str, others: str | None = None
) -> str:
    found = _of_cells(analysis, metric, name, base, pattern, others)
    return ", ".join(style.ratio(one.value) for one in found)


def _sums(analysis: Analysis, metric: str, name: str, base: str, pattern: str) -> str:
    key, cells = _METRICS.get(metric, metric), _names(analysis, pattern)
    above = _in_cells(cells, pattern, lambda cell: analysis.value(cell, name, key))
    below = _in_cells(cells, pattern, lambda cell: analysis.value(cell, base, key))
    return style.ratio(sum(one.value for one in above) / sum(one.value for one in below))


def _beyond(analysis: Analysis, metric: str, name: str, base: str, pattern: str) -> str:
    found = _of_cells(analysis, metric, name, base, pattern)
    return f"{sum(one.low > 1 for one in found)} of {len(found)}"


def _far(ratio: float, bound: float) -> bool:
    return ratio == 0 or abs(math.log(ratio)) > math.log(bound)


def _differs(one: Interval) -> bool:
    """True if the ratio is beyond the noise, and its interval, of five rounds, excludes 1."""
    return _far(one.value, NOISE) and not one.low <= 1 <= one.high


def _is_level(one: Interval) -> bool:
    return not any(
        _far(ratio, bound)
        for ratio, bound in ((one.value, NOISE), (one.low, LEVEL), (one.high, LEVEL))
    )


_SENSES: dict[str, Callable[[Interval], bool]] = {
    "less": lambda one: one.value < 1,
    "more": lambda one: one.value > 1,
    "same": lambda one: not _far(one.value, NOISE),
}


def _right(sense: str, found: Sequence[Interval]) -> list[bool]:
    """Whether the ratios lie where the sense says."""
    if sense not in _SENSES:
        raise RecordError(f"a sense is less, more or same, not {sense!r}")
    return [_SENSES[sense](one) for one in found]


def _verdict(agree: Sequence[bool], otherwise: str) -> str:
    return "yes" if all(agree) else "in part" if any(agree) else otherwise


def _sign(
    analysis: Analysis,
    sense: str,
    metric: str,
    name: str,
    base: str,
    pattern: str,
    others: str | None = None,
) -> str:
    """Whether the ratios are below 1 (`less`), above it (`more`) or at it (`same`). `yes`: in every
    cell, for sure; `in part`: in some; `weak`: for sure in none, but in none is the contrary beyond
    the noise, and half of the cells or more have the right median; `no`: else. A difference is sure
    beyond the noise; that there is none is sure if the median is within the noise and the interval
    within LEVEL."""
    found = _of_cells(analysis, metric, name, base, pattern, others)
    right = _right(sense, found)
    sure = [_is_level(one) if sense == "same" else _differs(one) for one in found]
    agree = [one and side for one, side in zip(sure, right, strict=True)]
    contrary = any(_differs(one) and not side for one, side in zip(found, right, strict=True))
    weak = not contrary and 2 * sum(right) >= len(found)
    return _verdict(agree, "weak" if weak else "no")


def _side(
    analysis: Analysis,
    sense: str,
    metric: str,
    name: str,
    base: str,
    pattern: str,
    others: str | None = None,
) -> str:
    """For memory and counts of few rounds, where no interval is known: `yes` if in every cell the
    ratio of the medians lies beyond the noise on the side of the sense, or for `same` within it;
    `in part` if it does in some; else `no`."""
    found = _of_cells(analysis, metric, name, base, pattern, others)
    sure = [sense == "same" or _far(one.value, NOISE) for one in found]
    agree = [one and side for one, side in zip(sure, _right(sense, found), strict=True)]
    return _verdict(agree, "no")


def _own_number(value: float) -> str:
    """Three digits; a small count has no others."""
    return f"{value:.0f}" if value == round(value) < 1000 else style.number(value)


def _value(analysis: Analysis, metric: str, name: str, pattern: str) -> str:
    key = _METRICS.get(metric, metric)
    factor = style.metric(key).factor
    cells = _names(analysis, pattern)
    found = _in_cells(cells, pattern, lambda cell: analysis.value(cell, name, key))
    return _span(found, lambda value: _own_number(value * factor))


def _machine(analysis: Analysis) -> str:
    record_ = analysis.record
    plan, found = record_.plan, record_.plan["machine"]
    counted = sum(run.round > 0 for runs in record_.runs.values() for run in runs)
    chosen = re.search(r"\[(\w+)\]", found["huge_pages"])
    commit, _, changed = (plan["commit"] or "–").partition("-")
    return (
        f"{found['cpu']}, {found['cpus']} processors, {found['memory_kib'] / (1 << 20):.1f} GiB, "
        f"Linux {found['kernel']}, {found['libc']}, transparent huge pages "
        f"{chosen[1] if chosen else '–'}; {plan['rounds']} rounds on {plan['date'][:10]}, "
        f"commit {commit[:7]}{' with changes' if changed else ''}; other work disturbed "
        f"{len(record_.disturbed())} of {counted:,} runs"
    )


def _empty(analysis: Analysis, name: str) -> str:
    found = analysis.record.empty_kib.get(name)
    if found is None:
        raise RecordError(f"no empty process of {name} was measured")
    return f"{found / 1024:.1f}"


def _harness(analysis: Analysis, cell: str) -> str:
    found = analysis.record.harness_share(cell)
    if found is None:
        raise RecordError(f"nobody counted the instructions of {cell!r}")
    return f"{100 * found:.0f} %"


def _instructions(analysis: Analysis, name: str, cell: str) -> str:
    counted = analysis.record.extras["instructions"].get((cell, name), {}).get("instructions")
    if not counted:
        raise RecordError(f"nobody counted the instructions of {cell!r} under {name}")
    return f"{style.number(counted / 1e9)} x 10^9"


def _version(analysis: Analysis, name: str) -> str:
    found = analysis.record.allocator_by_name.get(name)
    if found is None or not found.version:
        raise RecordError(f"no version of {name} is known")
    return found.version


_TABLES: dict[str, Callable[..., str]] = {
    "means": lambda analysis, *names: _table(_means(analysis, names)),
    "cells": lambda analysis, *names: _table(_cells(analysis, names)),
    "beside": lambda analysis, name, base, pattern, *patterns: _table(
        _beside(analysis, name, base, (pattern, *patterns))
    ),
    "losses": lambda analysis: _table(_losses(analysis)),
    "allocators": lambda analysis, cell, metric, *metrics: _table(
        _allocators(analysis, cell, (metric, *metrics))
    ),
    "counts": lambda analysis, first, *names: _table(_counts(analysis, (first, *names))),
    "targets": lambda analysis: _table(_targets(analysis)),
    "sweep": lambda analysis: _table(sweep_tables.target_rows(analysis.record)),
    "curves": lambda analysis: _table(sweep_tables.curve_rows(analysis.record)),
}
_NUMBERS: dict[str, Callable[..., str]] = {
    "mean": _mean,
    "ratio": _ratio,
    "ratios": _ratios,
    "beyond": _beyond,
    "sign": _sign,
    "side": _side,
    "value": _value,
    "machine": _machine,
    "empty": _empty,
    "harness": _harness,
    "instructions": _instructions,
    "version": _version,
    "count": seeds.count,
    "sums": _sums,
}


@functools.cache
def _analysis(path: Path) -> Analysis:
    return Analysis(record.read(path))


def _words(text: str) -> list[str]:
    """The words of a comment; one with spaces is in quotation marks."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise RecordError(f"{text!r}: {error}") from None


def _made(kinds: dict[str, Callable[..., str]], root: Path, at: re.Match[str]) -> str:
    """What the words of a comment ask for, between the comments. Raises RecordError."""
    kind, _, rest = at["words"].partition(" ")
    if kind not in kinds:
        raise RecordError(f"unknown {kind!r}; there are: {', '.join(kinds)}")
    file, *more = _words(rest) or [""]
    try:
        inspect.signature(kinds[kind]).bind(file, *more)
    except TypeError:
        raise RecordError(f"{at['words']!r} has a word too few or too many") from None
    data = (seeds.verdicts if kind == "count" else _analysis)(root / file)
    return at["head"] + kinds[kind](data, *more) + at["foot"]


def filled(text: str, root: Path) -> str:
    """The document with all its tables and numbers made anew."""
    text = _MARKED.sub(functools.partial(_made, _TABLES, root), text)
    return _NUMBER.sub(functools.partial(_made, _NUMBERS, root), text)


def tables(
    documents: Annotated[list[Path], typer.Argument(metavar="DOCUMENT...")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if anything is another.")
    ] = False,
) -> None:
    """Writes the tables and numbers of documents anew from the raw results that they name."""
    other = False
    for path in documents:
        try:
            before = path.read_text(encoding="utf-8")
            after = filled(before, places.ROOT)
        except (RecordError, OSError) as error:
            raise typer.BadParameter(f"{path}: {error}") from None
        if after != before:
            other = True
            print(f"{path}: {'has other tables or numbers' if check else 'written'}")
            if not check:
                path.write_text(after, encoding="utf-8")
    if check and other:
        raise typer.Exit(1)
