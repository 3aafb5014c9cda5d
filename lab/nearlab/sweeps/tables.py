"""The tables of a sweep's summary: targets, curves, and the points where a peer is better.

Invariant: a table shows every curve, and every point where the subject is not the best if the user
asks for all of them; what was not measured is named.
"""

from collections.abc import Iterator, Sequence

from rich.table import Table

from nearlab.results.record import Record, RecordError
from nearlab.results.stats import FEWEST_RUNS
from nearlab.sweeps import verdicts
from nearlab.sweeps.points import Point
from nearlab.sweeps.verdicts import Sweep, Verdict

WORST = 3  # points of a class of curves and of a kind that are shown
_VERDICTS = {True: "reached", False: "missed", None: "not judged"}
_COLORS = {True: "green", False: "red", None: "yellow"}
_NOUNS = {"time": "time", "memory": "memory", "rest": "memory after a rest"}


def targets(found: Sequence[Verdict]) -> Table:
    """The verdicts."""
    made = Table("target", "found", "points", "verdict", title="Targets", title_justify="left")
    for one in found:
        verdict = f"[{_COLORS[one.reached]}]{_VERDICTS[one.reached]}"
        made.add_row(one.target, one.found, str(one.points), verdict)
    made.caption = f"{sum(one.reached is True for one in found)} of {len(found)} reached"
    return made


def curves(sweep: Sweep) -> Table:
    """Each curve: at how many points the subject is the best, and where it is worst."""
    made = Table(title="Curves: ratios to the best peer of each point", title_justify="left")
    heading, *rows = _curve_rows(sweep)
    for column in heading:
        made.add_column(column)
    for row in rows:
        made.add_row(*row)
    return made


def _curve_rows(sweep: Sweep) -> Iterator[tuple[str, ...]]:
    yield "class", "curve", "fastest", "slowest point", "smallest", "largest point"
    names = dict.fromkeys((cell.group, cell.workload) for cell in sweep.record.cells)
    for group, name in names:
        time = [one for one in sweep.time if one.curve == name]
        memory = [one for one in sweep.judged_memory if one.curve == name]
        yield group, name, *_standing(time), *_standing(memory)


def curve_rows(record: Record) -> list[Sequence[str]]:
    """`curves` for a document."""
    return list(_curve_rows(_sweep_of(record)))


def target_rows(record: Record) -> list[Sequence[str]]:
    """`targets` for a document."""
    found = verdicts.verdicts(_sweep_of(record))
    rows: list[Sequence[str]] = [("target", "found", "points", "verdict")]
    rows += [(one.target, one.found, str(one.points), _VERDICTS[one.reached]) for one in found]
    return rows


def _sweep_of(record: Record) -> Sweep:
    subject = record.own_subject()
    if subject is None:
        raise RecordError(f"{record.path}: no sweep of an allocator of ours")
    return Sweep.with_points(record, subject)


def _standing(found: Sequence[Point]) -> tuple[str, str]:
    if not found:
        return "-", "-"
    best = sum(one.is_best for one in found)
    return f"{best} of {len(found)}", _shown(max(found, key=excess))


def excess(one: Point) -> float:
    """By how much the best peer is better; a failure is worse than any number."""
    return float("inf") if one.ratio is None else one.ratio.value


def _shown(one: Point) -> str:
    if one.ratio is None:
        return f"{place(one)}: {one.problem}"
    return f"{one.ratio} of {one.peer} at {place(one)}"


def place(one: Point) -> str:
    """Where on its curve the point is: `size=33`, `t=4`."""
    return one.cell.name.removeprefix(one.cell.workload).strip() or one.cell.name


def worst(sweep: Sweep, everything: bool) -> Table:
    """The points where a peer is better, the worst first, by class of curves."""
    made = Table(title="Where a peer is better", title_justify="left")
    for heading in ("class", "what", "point", "ratio", "best peer"):
        made.add_column(heading)
    hidden = 0
    for group, kind, found in _behind(sweep):
        shown = found if everything else found[:WORST]
        hidden += len(found) - len(shown)
        for one in shown:
            ratio = one.problem if one.ratio is None else str(one.ratio)
            made.add_row(group, _NOUNS[kind], one.cell.name, ratio, one.peer)
    made.caption = f"{hidden} more points; --all shows them" if hidden else None
    return made


def _behind(sweep: Sweep) -> Iterator[tuple[str, str, list[Point]]]:
    every = [*sweep.time, *sweep.judged_memory]
    for group in dict.fromkeys(cell.group for cell in sweep.record.cells):
        for kind in _NOUNS:
            own = [one for one in every if (one.cell.group, one.kind) == (group, kind)]
            behind = sorted((one for one in own if not one.is_best), key=excess, reverse=True)
            if behind:
                yield group, kind, behind


def notes(sweep: Sweep) -> Iterator[str]:
    """What the tables leave out, a line each."""
    record = sweep.record
    for allocator in record.allocators:
        if allocator.missing:
            yield f"{allocator.name} is missing: {allocator.missing}"
    for cell in record.cells:
        if cell.missing:
            yield f"{cell.name} was not run: {cell.missing}"
    for failure in record.failures():
        yield f"{failure.cell}, {failure.allocator}: {failure.reason}"
    small = sum(one.is_small for one in sweep.memory)
    if small:
        yield f"{small} heaps of at most 4 MiB are in the figures and not judged"
    if disturbed := record.disturbed():
        yield f"{len(disturbed)} runs were disturbed by other work"
    if sweep.rounds < FEWEST_RUNS:
        yield f"rounds: {sweep.rounds}; fewer than {FEWEST_RUNS} give no interval and judge nothing"
    if not record.complete:
        yield "the result is not complete"
