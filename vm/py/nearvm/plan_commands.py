"""The commands `./near vm plan`, which runs and shows a plan, and `./near vm figure`, which shows
its newest verdicts again.

Invariant: the exit status is 1 if a verdict is not `pass` or a comparison does not hold, 2 if the
request is wrong. Everything shown is computed from the file of verdicts.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from nearlab.plan import workloads
from nearlab.results.journal import JournalError
from nearlab.runs.interrupt import ended_by_signals
from nearvm import comparisons, machine, medians, plan_results, plan_table, plans, table
from nearvm.commands import INTERRUPTED, WRONG, console, error_console, tell
from nearvm.comparisons import Compared
from nearvm.plan_results import Result
from nearvm.plans import Plan, PlanError

_WRONG = (*WRONG, JournalError, PlanError, workloads.WorkloadError)
_Name = Annotated[str, typer.Argument(metavar="PLAN", help="Of vm/plans, or a file.")]
_Out = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Instead of build/vm/plans/PLAN.", file_okay=False),
]


def plan(
    name: _Name,
    seeds: Annotated[int, typer.Option(min=0, help="Runs of each; 0: as the plan says.")] = 0,
    out: _Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Goes on with one that ended.")] = False,
) -> None:
    """Runs a plan: its cases on its topologies, under its allocators; tests on the medians the
    comparisons between allocators that the plan demands.

    Prints the tables; verdicts, figure.svg, figure.png and table.md are in build/vm/plans/PLAN."""
    err = error_console()
    try:
        wanted = plans.load(name)
        folder = out or plan_results.folder_of(wanted)
        planned = plan_results.planned(wanted, seeds or wanted.keys.seeds)
        guests = machine.find()
        journal, result = plan_results.begin(wanted, guests, planned, folder, resume)
        with journal, ended_by_signals():
            for made in plan_results.execute(guests, planned, journal, result):
                tell(err, made)
    except _WRONG as error:
        err.print(f"near vm: {error}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(_show(wanted, result, folder))


def figure(name: _Name, out: _Out = None) -> None:
    """Shows the newest verdicts of a plan again, without running anything."""
    try:
        wanted = plans.load(name)
        folder = out or plan_results.folder_of(wanted)
        result = plan_results.newest(folder)
    except _WRONG as error:
        error_console().print(f"near vm: {error}")
        raise typer.Exit(2) from None
    raise typer.Exit(_show(wanted, result, folder))


def _show(wanted: Plan, result: Result, folder: Path) -> int:
    """Prints the tables and writes the files. Returns the exit status."""
    from nearvm import plan_figure  # the figure's library takes a second to load

    compared = comparisons.judged(wanted, result.verdicts)
    out = console()
    table.show(out, result.verdicts)
    table.show_counts(out, result.verdicts)
    text = plan_table.markdown(wanted, result, compared)
    (folder / "table.md").write_text(text, encoding="utf-8")
    for suffix in ("svg", "png"):
        plan_figure.draw(wanted, result, folder / f"figure.{suffix}")
    _tell_shortfalls(compared)
    outcomes = Counter(each.outcome for each in compared)
    passed = len(medians.passed(result.verdicts))
    failed = len(result.verdicts) - passed
    lines = (
        f"{passed} passed, {failed} failed",
        f"{outcomes['holds']} comparisons hold, {outcomes['noise']} are of noise alone, "
        f"{outcomes['falls short']} fall short, {outcomes['not made']} could not be made",
        f"{folder / 'figure.png'}",
    )
    for line in lines:
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    short = outcomes["falls short"] + outcomes["not made"]
    return 1 if failed or short or not passed else 0


def _tell_shortfalls(compared: list[Compared]) -> None:
    err = error_console()
    for each in compared:
        if each.outcome in ("falls short", "not made"):
            err.print(f"near vm: {each.outcome}: {each}")
