"""The lab's command line: `python3 -m nearlab COMMAND`, and `./near demo`, `./near lab COMMAND`."""

from typing import Annotated

import typer
from rich.console import Console

from . import baseline as baseline_module
from . import instructions as instructions_module
from . import measure, peers, targets, trace
from .compare_command import compare
from .demo import demo
from .listing import list_all
from .report.command import report
from .run import run
from .timeline import timeline
from .timeline_cost import timeline_cost

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
def baseline(
    rounds: Annotated[int, typer.Option(min=1, help="Counted rounds.")] = 9,
    quick: Annotated[bool, typer.Option("--quick", help="3 rounds, scaled: 3 minutes.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROW", help="Only rows that begin so, or `instructions`."),
    ] = None,
    allocators: _Allocators = "",
) -> None:
    """Measures nearmalloc beside its peers: time, memory, instructions, and the targets."""
    try:
        baseline_module.run(
            rounds=rounds,
            quick=quick,
            only=only or [],
            allocators=_split(allocators),
            out=_console(),
        )
    except (KeyError, measure.MeasureError) as error:
        raise typer.BadParameter(str(error.args[0])) from None


@app.command()
def instructions(allocators: _Allocators = "") -> None:
    """Counts the instructions of a malloc with its free, exactly."""
    found = peers.ensure(_split(allocators) or peers.CORE)
    counts = instructions_module.count(found)
    out = _console()
    out.print(baseline_module.instruction_table(found, counts))
    for verdict in targets.verdicts(None, counts):
        out.print(f"{verdict.target}: {verdict.found}", highlight=False)


if __name__ == "__main__":
    app()
