"""Commands of `./near` that are programs of their own, beside those of `./near lab`."""

from collections.abc import Callable

import typer


def run(command: Callable[..., None], name: str) -> None:
    """Runs the function with the words of the command line; help calls it `./near NAME`."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    app(prog_name=f"./near {name}")
