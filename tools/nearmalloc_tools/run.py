"""`nearmalloc run -- PROGRAM`: runs a program on nearmalloc, perhaps with a report of its leaks."""

import os

from nearmalloc_tools import library
from nearmalloc_tools.errors import Misuse, Refused


def run(
    command: list[str], stats: bool, leaks: bool, interval: int | None, ignored: list[str]
) -> int:
    """Becomes the program; with `leaks`, waits for it and returns the exit status."""
    for name, value in (("--interval", interval), ("--ignore", ignored)):
        if value and not leaks:
            raise Misuse(f"{name} needs --leaks")
    variables = library.environment() | ({"NEARMALLOC_STATS": "1"} if stats else {})
    if leaks:
        from nearmalloc_tools.leaks.command import run_and_report

        return run_and_report(command, variables, interval, ignored)
    try:
        os.execvpe(command[0], command, variables)
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}") from error
