"""The lab's command line: `python3 -m nearlab COMMAND`, and `./near demo`, `./near lab COMMAND`."""

from typing import Annotated

import typer
from rich.console import Console

from nearlab import peers
from nearlab.compare.command import compare
from nearlab.demo.command import demo
from nearlab.measure import instructions as instructions_module
from nearlab.measure import trace
from nearlab.plan.listing import list_all
from nearlab.report.command import report
from nearlab.runs.command import run
from nearlab.timeline.command import timeline
from nearlab.timeline.cost import timeline_cost

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(demo)
app.command()(run)
app.command("list")(list_all)
app.command()(compare)
app.command(context_settings={"ignore_unknown_options": True})(trace.record)
app.add_typer(trace.app, name="trace")
app.command()(report)
app.command()(timeline)
app.command("timeline-cost", context_settings={"ignore_unknown_options": True})(timeline_cost)

_Allocators = Annotated[
    str, typer.Option(metavar="NAME,...", help=f"Which (default {', '.join(peers.CORE)}).")
]


def _split(names: str) -> list[str]:
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in peers.NAMES]
    if unknown:
        raise typer.BadParameter(f"unknown allocator {unknown[0]}")
    return chosen


def _console() -> Console:
    """The console is wide enough for the tables when the output is a file."""
    console = Console()
    return console if console.is_terminal else Console(width=180)


@app.command()
def instructions(allocators: _Allocators = "") -> None:
    """Counts the instructions of a malloc with its free, exactly."""
    found = peers.ensure(_split(allocators) or peers.CORE)
    counts = instructions_module.count(found)
    _console().print(instructions_module.table(found, counts))


if __name__ == "__main__":
    app()
