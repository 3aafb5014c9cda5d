"""The command `list`: it prints the plans, workloads, real programs and allocators.

Invariant: what is missing is listed with the reason; nothing is installed or built.
"""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearlab import peers
from nearlab.plan import plan as plans
from nearlab.plan import workloads

_WIDTH = 180  # if stdout is no terminal


def list_all() -> None:
    """Lists plans, workloads, real programs and allocators."""
    out = Console()
    out = out if out.is_terminal else Console(width=_WIDTH)
    for table in (_plans(), _workloads(), _programs(), _allocators()):
        out.print(table)


def list_table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=head == heads[0])
    return table


def _plans() -> Table:
    table = list_table("Plans", "plan", "what it shows")
    for path in plans.paths():
        try:
            keys = plans.load(path).keys
            table.add_row(path.stem, keys.title or keys.description)
        except plans.PlanError as error:
            table.add_row(path.stem, escape(f"cannot be run: {error}"))
    return table


def _workloads() -> Table:
    table = list_table("Workloads", "workload", "what it does")
    for name in workloads.names():
        try:
            reason = workloads.missing(name)
            state = f" (missing: {reason})" if reason else ""
            table.add_row(name, escape(workloads.description(name) + state))
        except workloads.WorkloadError as error:
            table.add_row(name, escape(str(error)))
    return table


def _programs() -> Table:
    table = list_table("Real programs", "program", "what it does", "state")
    for program in plans.real_programs().values():
        missing = program.missing()
        state = program.version_line() or "installed"
        if missing:
            state = f"missing: {', '.join(sorted(set(missing.values())))}"
        table.add_row(plans.PROGRAM + program.name, program.title, state)
    return table


def _allocators() -> Table:
    table = list_table("Allocators", "allocator", "kind", "version", "from, and how it was built")
    for one in peers.table(peers.NAMES):
        missing = one["missing"] and f"missing: {one['missing']}"
        table.add_row(one["name"], one["group"], one["version"], escape(missing or one["flags"]))
    return table
