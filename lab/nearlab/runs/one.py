"""The command `compare-allocators`: any command under several allocators, interleaved."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nearlab import commands, peers, places, preflight
from nearlab.plan import chosen
from nearlab.plan import plan as plans
from nearlab.plan.plan import Plan, PlanError
from nearlab.runs.command import REFUSED, Choice, error_console, show_result


def of_command(command: list[str]) -> Plan:
    """The plan of one command, run in this folder; what it prints may differ from run to run."""
    words = [word.replace("$", "$$") for word in command]
    name = "".join(letter for letter in Path(command[0]).name if letter.isalnum()) or "command"
    keys = {
        "name": name,
        "argv": words,
        "cwd": str(Path.cwd()).replace("$", "$$"),
        "answer": "none",
        "tree": True,
    }
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    core = json.dumps(list(peers.CORE))
    head = f'name = "compare-{name}"\nrounds = 5\nallocators = {core}\n'
    return plans.parse(f"{head}[[program]]\n{table}", "command line")


def compare_allocators(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND [ARGUMENT]...")],
    allocators: Annotated[
        str, typer.Option(metavar="NAME,...", help="These; NAME=LIBRARY is your own.")
    ] = "",
    rounds: Annotated[int | None, typer.Option(min=1, help="Counted rounds (5).")] = None,
) -> None:
    """Runs a command under allocators, interleaved, and compares time and memory."""
    choice = Choice(rounds, chosen.split(allocators))
    try:
        nothing = preflight.no_command(command)
        if problem := nothing or preflight.refusal([], choice.allocators, places.plan_results()):
            raise PlanError(problem)
        show_result(of_command(command), choice, False, ())
    except REFUSED as error:
        error_console().print(f"{commands.program()}: {error}")
        raise typer.Exit(2) from None
