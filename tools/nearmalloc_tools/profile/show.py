"""`./near profile show FILE`: the page of a profile that the library wrote earlier."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearmalloc_tools import typer_app
from nearmalloc_tools.profile.browser import Open, offer
from nearmalloc_tools.profile.command import write
from nearmalloc_tools.profile.leaked import Leaked
from nearmalloc_tools.profile.profile import read

_NOT_LOOKED = (
    "a profile alone does not say what the process could reach; ./near run --leaks looks for leaks"
)


def show(
    file: Annotated[Path, typer.Argument(help="a profile in JSON, or one that was kept")],
    out: Annotated[Path, typer.Option(help="the page")] = Path("near-profile.html"),
    open_page: Open = None,
) -> None:
    """Writes the page of a profile that a process wrote by near_profile_write, on a signal, at
    exit, or that it kept while it ran, and opens it in a browser."""
    try:
        found = read(file)
        write(found, Leaked(unknown=_NOT_LOOKED), f"Memory of process {found.told['pid']}", out)
        offer(out, open_page)
    except (OSError, ValueError) as error:
        print(f"near: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    typer_app.run(show, "profile show")
