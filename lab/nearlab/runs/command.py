"""The command `run`: runs a plan, or workloads by name, under allocators; shows the result.

Invariant: a bad plan or choice gives one line on stderr and exit status 2 before anything runs. An
interrupted run leaves a result that --resume continues, and exit status 130.
"""

import contextlib
import fnmatch
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nearlab import commands, places, preflight
from nearlab.measure import measure
from nearlab.peers import Allocator
from nearlab.plan import cells as cells_module
from nearlab.plan import chosen, workloads
from nearlab.plan import plan as plans
from nearlab.plan.cells import Cell
from nearlab.plan.plan import Plan, PlanError
from nearlab.report import terminal
from nearlab.results import journal, record, summary, targets
from nearlab.runs import huge_pages
from nearlab.runs.driver import Driver
from nearlab.runs.interrupt import ended_by_signals
from nearlab.runs.work import Bench
from nearlab.sweeps import before

_WIDTH = 180  # the table's width if stdout is no terminal
_INTERRUPTED = 130
_GOLDEN = (5**0.5 - 1) / 2
REFUSED = (PlanError, journal.JournalError, measure.MeasureError)


@dataclass(frozen=True, slots=True)
class Choice:
    """The changes of the command line to a plan."""

    rounds: int | None = None
    allocators: tuple[str, ...] = ()
    only: str = "*"
    count: bool = False
    instructions: bool = False
    pin: str = ""
    scale: float = 1.0  # the share of each row's cells

    def words(self) -> tuple[str, ...]:
        """The options that make this choice."""
        named = {
            "--rounds": self.rounds,
            "--allocators": ",".join(self.allocators),
            "--only": self.only if self.only != "*" else None,
            "--pin": self.pin,
            "--scale": self.scale if self.scale < 1 else None,
        }
        words = [word for name, value in named.items() if value for word in (name, str(value))]
        words += ["--count"] if self.count else []
        return (*words, "--instructions") if self.instructions else tuple(words)


def run(
    what: Annotated[list[str], typer.Argument(metavar="PLAN|WORKLOAD...", help="What to run.")],
    rounds: Annotated[int | None, typer.Option(min=1, help="Counted rounds.")] = None,
    allocators: Annotated[
        str, typer.Option(metavar="NAME,...", help="These; NAME=LIBRARY is your own.")
    ] = "",
    only: Annotated[str, typer.Option(metavar="GLOB", help="Only cells called so.")] = "*",
    pin: Annotated[
        str, typer.Option(metavar="spread|compact", help="Binds threads of workloads to CPUs.")
    ] = "",
    scale: Annotated[
        float, typer.Option(min=0.001, max=1, help="This share of each row's cells, evenly spread.")
    ] = 1.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was ended.")] = False,
    count: Annotated[
        bool, typer.Option("--count", help="Count calls of malloc and of the kernel.")
    ] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Count instructions (callgrind, slow).")
    ] = False,
) -> None:
    """Runs a plan (a name of lab/plans, or a path to a .toml) or workloads by name."""
    choice = Choice(rounds, chosen.split(allocators), only, count, instructions, pin, scale)
    try:
        if pin not in ("", "spread", "compact"):
            raise PlanError(f"--pin is spread or compact, not {pin!r}")
        if problem := preflight.refusal(what, choice.allocators, places.plan_results()):
            raise PlanError(problem)
        show_result(find_plan(what), choice, resume, ("run", *what))
    except REFUSED as error:
        error_console().print(f"{commands.program()}: {error}")
        raise typer.Exit(2) from None


def show_result(plan: Plan, choice: Choice, resume: bool, words: Sequence[str]) -> None:
    """Runs what was chosen and prints the summary; `words` make the command that resumes it."""
    with prepared(plan, choice) as driver:
        if told := before.announcement(driver.cells, driver.allocators, plan.keys.warm_up):
            error_console().print(told)
        path = drive(driver, resume, error_console(), (*words, *choice.words()))
    out = Console()
    out = out if out.is_terminal else Console(width=_WIDTH)
    found = record.read(path)
    summary.show(out, found)
    terminal.show(out, found)
    if plan.keys.target:
        out.print(targets.table(targets.verdicts(found)))
    out.print(f"result: {shown(path)}", markup=False, highlight=False, soft_wrap=True)


def error_console() -> Console:
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def find_plan(what: Sequence[str]) -> Plan:
    """One plan, or the plan that several workloads make."""
    plan_names = [path.stem for path in places.plan_files()]
    if len(what) == 1 and (what[0].endswith(".toml") or what[0] in plan_names):
        return plans.load(plans.find(what[0]))
    return plans.ad_hoc(what)


@contextlib.contextmanager
def prepared(plan: Plan, choice: Choice) -> Iterator[Driver]:
    """Yields the driver of what the user chose; inputs of real programs exist within this context.
    """
    cells = chosen_cells(plan, choice)
    measure.launcher()  # the driver needs it for every run
    allocators = _allocators(plan, choice)
    bench = Bench()
    with tempfile.TemporaryDirectory(prefix="near-lab-") as folder:
        real = [cell.real_program for cell in cells if cell.real_program]
        quick = plan.keys.preset == "two-cores"
        missing = bench.prepare(real, Path(folder), quick, plan.given)
        missing |= workloads.provide(cell.program for cell in cells if not cell.real_program)
        ready = [
            replace(cell, missing=missing.get(cell.real_program or cell.program) or _unset(cell))
            for cell in cells
        ]
        counted = ["count"] if choice.count or plan.keys.count else []
        counted += ["instructions"] if choice.instructions else []
        yield Driver(plan, ready, allocators, bench, counted=counted)


def _unset(cell: Cell) -> str | None:
    """Why processes cannot be set here as the cell wants it, or have no room."""
    return huge_pages.problem(cell.huge_pages) or before.no_room(cell)


def _allocators(plan: Plan, choice: Choice) -> list[Allocator]:
    """Those of the plan, of which some may be missing; of those that the user named, none may."""
    found = chosen.find(choice.allocators or plan.allocators)
    absent = [one for one in found if one.missing] if choice.allocators else []
    if absent:
        raise PlanError(f"--allocators: {absent[0].name}: {absent[0].missing}")
    return found


def chosen_cells(plan: Plan, choice: Choice) -> list[Cell]:
    every = cells_module.of_plan(plan, choice.rounds)
    cells = [cell for cell in every if fnmatch.fnmatchcase(cell.name, choice.only)]
    cells = thinned(cells, choice.scale)
    if not cells:
        known = ", ".join(cell.name for cell in every)
        raise PlanError(f"no cell is called {choice.only!r}; there are: {known}")
    if choice.pin:
        pin = ("--pin", choice.pin)
        cells = [replace(c, argv=(*c.argv, *pin) if c.argv else ()) for c in cells]
    if choice.allocators:  # all cells run under a named allocator
        return [replace(cell, foreign=()) for cell in cells]
    return cells


def thinned(cells: Sequence[Cell], share: float) -> list[Cell]:
    """This share of the cells of each row, the first one at least: evenly spread, and out of step
    with rows that alternate, as multiples of the golden ratio are."""
    found, seen = [], Counter[str]()
    for cell in cells:
        if seen[cell.workload] * _GOLDEN % 1 < share:
            found.append(cell)
        seen[cell.workload] += 1
    return found


def drive(driver: Driver, resume: bool, err: Console, words: Sequence[str] = ()) -> Path:
    """Runs the driver to its end. `words` are those of the command that --resume is added to."""
    results = places.plan_results()
    with ended_by_signals():
        try:
            with driver.resume(results) if resume else driver.start(results) as lines:
                try:
                    driver.run(lines)
                except KeyboardInterrupt:
                    again = shlex.join(words) + " --resume"
                    more = f"; to go on with it:\n{commands.program()} {again}" if words else ""
                    err.print(
                        f"{commands.program()}: interrupted, {driver.left()} runs are left; "
                        f"{shown(lines.path)} is kept{more}"
                    )
                    raise
                return lines.path
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None


def shown(path: Path) -> str:
    """Returns the path relative to the repository, if it is inside."""
    return str(path.relative_to(places.ROOT) if path.is_relative_to(places.ROOT) else path)
