"""The command `run`: runs a plan, or workloads by name, under allocators; shows the result.

Invariant: a bad plan or choice gives one line on stderr and exit status 2 before anything runs. An
interrupted run leaves a result that --resume continues, and exit status 130.
"""

import contextlib
import fnmatch
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearlab import places
from nearlab.measure import measure
from nearlab.plan import cells as cells_module
from nearlab.plan import chosen, workloads
from nearlab.plan import plan as plans
from nearlab.plan.cells import Cell
from nearlab.plan.plan import Plan, PlanError
from nearlab.results import journal, record, summary, targets
from nearlab.runs.driver import Driver
from nearlab.runs.interrupt import ended_by_signals
from nearlab.runs.work import Bench

_WIDTH = 180  # the table's width if stdout is no terminal
_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Choice:
    """The changes of the command line to a plan."""

    rounds: int | None = None
    allocators: tuple[str, ...] = ()
    only: str = "*"
    count: bool = False
    instructions: bool = False


def run(
    what: Annotated[list[str], typer.Argument(metavar="PLAN|WORKLOAD...", help="What to run.")],
    rounds: Annotated[int | None, typer.Option(min=1, help="Counted rounds.")] = None,
    allocators: Annotated[
        str, typer.Option(metavar="NAME,...", help="These; NAME=LIBRARY is your own.")
    ] = "",
    only: Annotated[str, typer.Option(metavar="GLOB", help="Only cells called so.")] = "*",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was ended.")] = False,
    count: Annotated[
        bool, typer.Option("--count", help="Count calls of malloc and of the kernel.")
    ] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Count instructions (callgrind, slow).")
    ] = False,
) -> None:
    """Runs a plan (a name of lab/plans, or a path to a .toml) or workloads by name."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    names = tuple(name.strip() for name in allocators.split(",") if name.strip())
    choice = Choice(rounds, names, only, count, instructions)
    try:
        plan = find_plan(what)
        with prepared(plan, choice) as driver:
            path = drive(driver, resume, err, " ".join(what))
    except (PlanError, journal.JournalError, measure.MeasureError) as error:
        err.print(f"near lab: {error}")
        raise typer.Exit(2) from None
    out = Console()
    out = out if out.is_terminal else Console(width=_WIDTH)
    summary.show(out, journal.read(path))
    if plan.keys.target:
        out.print(targets.table(targets.verdicts(record.read(path))))
    out.print(f"result: {shown(path)}", markup=False, highlight=False, soft_wrap=True)


def find_plan(what: Sequence[str]) -> Plan:
    """One plan, or the plan that several workloads make."""
    if len(what) == 1 and (what[0].endswith(".toml") or what[0] in _plan_names()):
        return plans.load(plans.find(what[0]))
    for name in what:
        if name not in workloads.names() and not name.startswith(plans.PROGRAM):
            raise PlanError(
                f"{name!r} is no plan ({', '.join(_plan_names())}), and no workload that is built "
                f"({', '.join(workloads.names())})"
            )
    return plans.ad_hoc(what)


def _plan_names() -> list[str]:
    return [path.stem for path in plans.paths()]


@contextlib.contextmanager
def prepared(plan: Plan, choice: Choice) -> Iterator[Driver]:
    """Yields the driver of what the user chose; inputs of real programs exist within this context.
    """
    cells = chosen_cells(plan, choice)
    names = chosen_allocators(plan, choice)
    measure.launcher()  # the driver needs it for every run
    bench = Bench()
    with tempfile.TemporaryDirectory(prefix="near-lab-") as folder:
        real = [cell.real_program for cell in cells if cell.real_program]
        missing = bench.prepare(real, Path(folder), quick=plan.keys.preset == "two-cores")
        missing |= workloads.provide(cell.program for cell in cells if not cell.real_program)
        ready = [
            replace(cell, missing=missing.get(cell.real_program or cell.program)) for cell in cells
        ]
        counted = ["count"] if choice.count or plan.keys.count else []
        counted += ["instructions"] if choice.instructions else []
        yield Driver(plan, ready, chosen.find(names), bench, counted=counted)


def chosen_cells(plan: Plan, choice: Choice) -> list[Cell]:
    every = cells_module.of_plan(plan, choice.rounds)
    cells = [cell for cell in every if fnmatch.fnmatchcase(cell.name, choice.only)]
    if not cells:
        known = ", ".join(cell.name for cell in every)
        raise PlanError(f"no cell is called {choice.only!r}; there are: {known}")
    if choice.allocators:  # all cells run under a named allocator
        return [replace(cell, foreign=()) for cell in cells]
    return cells


def chosen_allocators(plan: Plan, choice: Choice) -> tuple[str, ...]:
    if problem := chosen.problem(choice.allocators):
        raise PlanError(f"--allocators: {problem}")
    return choice.allocators or plan.allocators


def drive(driver: Driver, resume: bool, err: Console, what: str) -> Path:
    results = places.plan_results()
    with ended_by_signals():
        try:
            with driver.resume(results) if resume else driver.start(results) as lines:
                try:
                    driver.run(lines)
                except KeyboardInterrupt:
                    err.print(
                        f"near lab: interrupted, {driver.left()} runs are left; {shown(lines.path)}"
                        f" is kept: ./near lab run {what} --resume goes on with it"
                    )
                    raise
                return lines.path
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None


def shown(path: Path) -> str:
    """Returns the path relative to the repository, if it is inside."""
    return str(path.relative_to(places.ROOT) if path.is_relative_to(places.ROOT) else path)
