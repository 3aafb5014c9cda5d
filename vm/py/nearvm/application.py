"""The command line of the NUMA machine: `python3 -m nearvm COMMAND`, and `./near vm`."""

import typer

from nearvm import commands, plan_commands

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("list")(commands.list_all)
app.command()(commands.run)
app.command()(plan_commands.plan)
app.command()(plan_commands.figure)
