"""The command line of the simulated machine: `python3 -m nearmanycore`, and `./near manycore`."""

import typer

from nearmanycore import commands, goals_command

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("list")(commands.list_all)
app.command()(commands.run)
app.command("plan")(commands.run_plan)
app.command("table")(commands.show_plan)
app.command("goals")(goals_command.judge_goals)
app.command("calibrate")(commands.measure_here)
app.command("validate")(commands.compare)
app.command("report")(commands.again)
