"""The demo: real programs under the system's malloc and under nearmalloc, side by side.

It runs the plan `demo` and compares its two allocators. Invariant: it ends with 0 only if every
selected program that is available ran, with the right output, served by the right malloc. Nothing
it starts outlives it. Results: a table on stdout; the page of the results is made by `report`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from nearlab.demo import table as demo_table
from nearlab.measure.measure import MeasureError
from nearlab.plan import plan as plans
from nearlab.plan.plan import Plan, PlanError
from nearlab.results import record as record_module
from nearlab.results.journal import JournalError
from nearlab.results.record import Allocator, Record
from nearlab.runs.command import Choice, drive, prepared, shown

_WIDTH = 80  # the table's width, also if stdout is no terminal


def demo(
    rounds: Annotated[int | None, typer.Option(min=1, help="Counted rounds (5).")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run this program; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small inputs: about a minute.")] = False,
) -> None:
    """Runs real programs under glibc's malloc and under nearmalloc and compares them."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        plan = _chosen(plans.load(plans.find("demo")), only or [], rounds, quick)
        with prepared(plan, Choice()) as driver:
            for allocator in driver.allocators:
                if allocator.missing:
                    raise PlanError(f"{allocator.name}: {allocator.missing}")
            for cell in driver.cells:
                if cell.missing:
                    err.print(f"demo: {cell.name} is skipped: {cell.missing}")
            path = drive(driver, False, err)
    except (PlanError, JournalError, MeasureError) as error:
        err.print(f"demo: {error}")
        raise typer.Exit(2) from None
    record = record_module.read(path)
    rows = demo_table.rows_of(record)
    if not rows:
        err.print("demo: no program could be run")
        raise typer.Exit(1)
    _report(rows, record)
    if any(row.failure for row in rows):
        raise typer.Exit(1)


def _chosen(plan: Plan, names: Sequence[str], rounds: int | None, quick: bool) -> Plan:
    """Returns the plan with the named programs alone. A name may be a list with commas."""
    every = [workload.label for workload in plan.keys.workload]
    wanted = [name for part in names for name in part.split(",") if name] or every
    unknown = set(wanted) - set(every)
    if unknown:
        there_are = ", ".join(every)
        raise PlanError(f"no program is called {', '.join(sorted(unknown))}; there are {there_are}")
    workloads = [workload for workload in plan.keys.workload if workload.label in wanted]
    changes = {
        "workload": workloads,
        "rounds": rounds or plan.keys.rounds,
        "preset": "two-cores" if quick else plan.keys.preset,
    }
    return replace(plan, keys=plan.keys.model_copy(update=changes))


def _report(rows: Sequence[demo_table.Row], record: Record) -> None:
    out = Console(highlight=False)
    if not out.is_terminal or out.width < _WIDTH:
        out = Console(highlight=False, width=_WIDTH)
    baseline, candidate = (_named(one) for one in record.allocators)
    machine = record.plan["machine"]
    subtitle = (
        f"Interleaved rounds: {record.plan['rounds']}, after a warm-up; median ratio and its "
        f"95 % interval; peak memory = resident + page tables\n{machine['cpu']}, "
        f"{machine['cpus']} CPUs, Linux {machine['kernel']}, {record.plan['date'][:10]}"
    )
    out.print()
    out.print(
        f"[bold]{candidate} / {baseline}[/]: below 1 is better, in brackets the 95 % interval"
    )
    out.print(demo_table.render(rows))
    for row in rows:
        if row.failure:
            out.print(
                f"{row.name} failed: {row.failure}", markup=False, style="red", soft_wrap=True
            )
    out.print(subtitle, markup=False, style="dim", soft_wrap=True)
    out.print(shown(record.path), markup=False, style="dim", soft_wrap=True)


def _named(allocator: Allocator) -> str:
    """Returns the label with the version; the label `glibc 2.36` holds it already."""
    return f"{allocator.label} {allocator.version.rpartition(' ')[2]}".strip()
