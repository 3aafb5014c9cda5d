"""How all commands say that something is wrong: one line on stderr, and the exit status."""

import os
import sys
from pathlib import Path

FAILED, MISUSE = 1, 2  # exit statuses


class Refused(Exception):
    """A request that cannot be met, with the reason in one line. Exit status: FAILED."""


class Misuse(Refused):
    """A wrong use of a command. Exit status: MISUSE."""


def program() -> str:
    """What the user typed to run this program: NEAR_PROGRAM says so, if another program runs it."""
    return os.environ.get("NEAR_PROGRAM") or "nearmalloc"


def say(text: str) -> None:
    """Prints a text on stderr, behind the name of the program."""
    print(f"{Path(program()).name}: {text}", file=sys.stderr, flush=True)
