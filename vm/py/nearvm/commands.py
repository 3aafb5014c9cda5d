"""The commands of `./near vm`: list what there is; run cases on a topology, each to a verdict.

Invariant: the exit status is 1 if a verdict is not `pass`, 2 if the request is wrong.
"""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearlab.plan import workloads
from nearlab.runs.interrupt import ended_by_signals
from nearvm import cases, machine, medians, plans, runs, table, topology
from nearvm.cases import CaseError
from nearvm.machine import MachineError
from nearvm.runs import ChoiceError
from nearvm.topology import TopologyError

_WIDTH = 160  # where stdout is no terminal
INTERRUPTED = 130
WRONG = (CaseError, ChoiceError, MachineError, TopologyError)


def list_table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=head == heads[0])
    return table


def list_all() -> None:
    """Lists topologies, cases and plans."""
    out = console()
    shown = list_table("Topologies", "topology", "what it is")
    for name in topology.names():
        shown.add_row(name, escape(topology.load(name).keys.description))
    out.print(shown)
    shown = list_table("Cases", "case", "what it shows", "on")
    for name in cases.names():
        keys = cases.load(name).keys
        shown.add_row(name, escape(keys.description), " ".join(keys.topologies))
    out.print(shown)
    shown = list_table("Plans", "plan", "what it shows")
    for name in plans.names():
        shown.add_row(name, escape(plans.load(name).keys.description))
    out.print(shown)


def run(
    where: Annotated[str, typer.Argument(metavar="TOPOLOGY|all", help="The machine.")],
    what: Annotated[list[str], typer.Argument(metavar="CASE...", help="What runs on it.")],
    allocators: Annotated[
        str, typer.Option(metavar="NAME,...", help="Under these, each in a guest of its own.")
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with seeds 1, 2, ...")] = 1,
) -> None:
    """Runs cases in guests of a topology; `all`: on those that each case names, or all cases.

    Prints the tables of their outcomes and of their counts; the verdicts are kept in
    build/vm/verdicts."""
    err = error_console()
    verdicts: list[dict[str, Any]] = []
    try:
        planned = runs.plan(where, what, allocators, seeds)
        guests = machine.find()
        with ended_by_signals():
            for one in planned:
                for made in runs.execute(guests, one):
                    verdicts.append(made)
                    tell(err, made)
    except (*WRONG, workloads.WorkloadError) as error:
        err.print(f"near vm: {error}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    out = console()
    table.show(out, verdicts)
    table.show_counts(out, verdicts)
    passed = len(medians.passed(verdicts))
    out.print(f"{passed} passed, {len(verdicts) - passed} failed", highlight=False)
    out.print(f"verdicts: {runs.verdict_folder()}", highlight=False, soft_wrap=True)
    raise typer.Exit(0 if passed == len(verdicts) else 1)


def tell(err: Console, made: dict[str, Any]) -> None:
    """Prints the outcome of a run as soon as it is known."""
    what = f"{made['topology']} {made['case']} {made['allocator']} seed {made['seed']}"
    err.print(f"near vm: {what}: {made['outcome']}")
    for reason in made["why"]:
        err.print(f"near vm:   {reason}")


def console() -> Console:
    out = Console()
    return out if out.is_terminal else Console(width=_WIDTH)


def error_console() -> Console:
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
