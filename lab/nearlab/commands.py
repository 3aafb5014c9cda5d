"""The lab's command line: `nearlab COMMAND`, and `./near demo`, `./near lab COMMAND`.

Invariant: the usage, `list`, and the refusal of a wrong request need only Python itself; a command
imports its own module alone.
"""

import importlib
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nearlab import places

if TYPE_CHECKING:
    import typer

# The module and the function of each command, and what it does.
COMMANDS = {
    "run": ("runs.command", "run", "runs a plan, or workloads by name, under allocators"),
    "compare-allocators": ("runs.one", "compare_allocators", "runs any command under allocators"),
    "report": ("report.command", "report", "writes the page of a result, or one of its figures"),
    "sweep-summary": ("sweeps.command", "sweep_summary", "judges the curves of a sweep"),
    "compare": ("compare.command", "compare", "shows what changed from one result to another"),
    "tables": ("report.documents", "tables", "writes tables of documents from raw results"),
    "list": ("plan.listing", "list_all", "lists plans, workloads, real programs, allocators"),
    "record": ("measure.trace", "record", "records the allocations of a program"),
    "trace": ("measure.trace", "app", "says what such a record holds: trace info FILE"),
    "timeline": ("timeline.command", "timeline", "draws what threads did, or makes a trace of it"),
    "timeline-cost": ("timeline.cost", "timeline_cost", "measures what recording one costs"),
    "instructions": ("measure.instructions", "instructions", "counts those of malloc and free"),
    "pictures": ("pictures", "pictures", "draws the pictures of ./near profile and ./near top"),
    "demo": ("demo.command", "demo", "shows in five minutes what nearmalloc changes"),
}
if places.INSTALLED:  # these two need the repository
    del COMMANDS["demo"], COMMANDS["tables"]
_TAKES_A_PROGRAM = {"compare-allocators", "record", "timeline-cost"}


def program() -> str:
    """How this command line is called: `./near` names itself."""
    return os.environ.get("NEAR_LAB_COMMAND", "nearlab")


def usage() -> str:
    rows = "".join(f"  {name:19} {what}\n" for name, (_, _, what) in COMMANDS.items())
    more = f"`{program()} COMMAND --help` has the options of a command."
    return f"usage: {program()} COMMAND ...\n\n{rows}\n{more}"


def application(names: Iterable[str] = tuple(COMMANDS)) -> "typer.Typer":
    """The commands of these names."""
    import typer  # the usage and `list` do without it

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    for name in names:
        module, function, _ = COMMANDS[name]
        found = getattr(importlib.import_module(f"nearlab.{module}"), function)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            settings = {"ignore_unknown_options": name in _TAKES_A_PROGRAM}
            app.command(name, context_settings=settings)(found)
    return app


def main() -> None:
    from nearlab import preflight

    status = preflight.answer(sys.argv[1:])
    if status is not None:
        sys.exit(status)
    application([sys.argv[1]])(prog_name=program())
