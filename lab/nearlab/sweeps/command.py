"""`./near lab sweep-summary`: what a sweep reached, where a peer is better, and the figures."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from nearlab import commands
from nearlab.results import record
from nearlab.results.journal import JournalError, find
from nearlab.results.record import RecordError
from nearlab.sweeps import tables, verdicts
from nearlab.sweeps.points import Point
from nearlab.sweeps.verdicts import Sweep, Verdict

_WIDTH = 180  # of the tables if stdout is no terminal
_FORMAT = 1


def read(path: Path, subject: str | None) -> Sweep:
    """The sweep of a results file. Raises RecordError if it has no points or no such subject."""
    found = record.read(path)
    subject = subject or found.own_subject()
    names = ", ".join(found.allocator_by_name)
    if subject is None:
        raise RecordError(f"{path}: --subject is needed, one of {names}")
    if subject not in found.allocator_by_name:
        raise RecordError(f"{path}: no allocator is called {subject!r}; there are: {names}")
    return Sweep.with_points(found, subject)


def to_json(sweep: Sweep, found: list[Verdict]) -> dict[str, Any]:
    """The summary for other programs."""
    return {
        "format": _FORMAT,
        "result": str(sweep.record.path),
        "subject": sweep.subject,
        "rounds": sweep.rounds,
        "targets": [asdict(one) for one in found],
        "points": [_point_json(one) for one in (*sweep.time, *sweep.memory)],
    }


def _point_json(one: Point) -> dict[str, Any]:
    ratio = one.ratio
    known = ratio is not None and math.isfinite(ratio.high)
    return {
        "cell": one.cell.name,
        "class": one.cell.group,
        "kind": one.kind,
        "peer": one.peer,
        "ratio": ratio.value if ratio else None,
        "low": ratio.low if ratio and known else None,
        "high": ratio.high if ratio and known else None,
        "judged": not one.is_small,
        "medians": one.medians,
        "problem": one.problem,
    }


def sweep_summary(
    result: Annotated[
        str, typer.Argument(metavar="[RESULT|PLAN]", help="A file, PLAN or PLAN~1.")
    ] = "sweep",
    subject: Annotated[
        str | None, typer.Option(metavar="NAME", help="The allocator to judge (yours).")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Shows every point where a peer is better.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for the figures of the curves.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Writes everything to a file.")
    ] = None,
) -> None:
    """Judges a sweep: shares of points, means, and where a peer is better."""
    try:
        sweep = read(find(result), subject)
        found = verdicts.verdicts(sweep)
        if json_file is not None:
            json_file.write_text(json.dumps(to_json(sweep, found), indent=2) + "\n")
        drawn = _draw(sweep, output) if output is not None else []
    except (JournalError, RecordError, OSError) as error:
        typer.echo(f"{commands.program()}: {error}", err=True)
        raise typer.Exit(2) from None
    out = Console()
    out = out if out.is_terminal else Console(width=_WIDTH)
    for table in (tables.curves(sweep), tables.worst(sweep, everything), tables.targets(found)):
        out.print(table)
    for note in tables.notes(sweep):
        out.print(note, style="yellow", markup=False, soft_wrap=True)
    for path in drawn:
        out.print(str(path), markup=False, highlight=False, soft_wrap=True)


def _draw(sweep: Sweep, folder: Path) -> list[Path]:
    from nearlab.sweeps import figures  # the charts' library takes a second to load

    return figures.write(sweep, folder)
