"""The programs of `--long`: the lab's plan `demo`, which installs what is missing.

Invariant: only this module of the demo needs the lab's packages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from nearlab import programs
from nearlab.demo.table import MEASURES, Comparison, Row
from nearlab.plan import plan as plans
from nearlab.plan.plan import Plan, PlanError
from nearlab.results import record as record_module
from nearlab.results.journal import JournalError
from nearlab.results.record import Cell, Record
from nearlab.runs.command import Choice, drive, prepared, shown


class Refused(RuntimeError):
    """The programs cannot be run; the message is one line."""


@dataclass(frozen=True, slots=True)
class Result:
    """The rows, and the path of the raw results, for `report`."""

    rows: list[Row]
    path: str


def run(names: Sequence[str], rounds: int | None, err: Console) -> Result:
    """Runs these programs of the plan."""
    try:
        path = _drive(_chosen(plans.load(plans.find("demo")), names, rounds), err)
    except (PlanError, JournalError) as error:
        raise Refused(str(error)) from None
    return Result(rows_of(record_module.read(path)), shown(path))


def _drive(plan: Plan, err: Console) -> Path:
    with prepared(plan, Choice()) as driver:
        for cell in driver.cells:
            if cell.missing:
                err.print(f"demo: {cell.name} is skipped: {cell.missing}", soft_wrap=True)
        return drive(driver, False, err)


def _chosen(plan: Plan, names: Sequence[str], rounds: int | None) -> Plan:
    workloads = [workload for workload in plan.keys.workload if workload.label in names]
    changes = {"workload": workloads, "rounds": rounds or plan.keys.rounds}
    return replace(plan, keys=plan.keys.model_copy(update=changes))


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
