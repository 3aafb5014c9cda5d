"""The driver's messages: lines `near: ...` on stderr, errors with their exit status, tables."""

import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Failure(Exception):
    """Something failed. The message is one line for the user."""

    status = 1


class Misuse(Failure):
    """Wrong use, or something is missing."""

    status = 2


def say(message: str) -> None:
    print(f"near: {message}", file=sys.stderr, flush=True)


def show_table(
    title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]], numbers: int = 1
) -> None:
    """Prints a table on stdout, in colour on a terminal; its last `numbers` columns are numbers."""
    out = Console(highlight=False)
    if not out.is_terminal:
        out.width = 120
    table = Table(box=None, pad_edge=False, header_style="cyan")
    for place, head in enumerate(heads):
        number = place >= len(heads) - numbers
        table.add_column(head, justify="right" if number else "left", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    out.print(title, style="bold")
    out.print(table)
    out.print()


def clock_time(seconds: float) -> str:
    """Minutes and seconds, as 3:07."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}"
