"""`./near core FILE`: where the memory of a dead process was, and what an address was."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearmalloc_tools import typer_app
from nearmalloc_tools.debugger.core import Core, layout_of
from nearmalloc_tools.debugger.debugger_commands import Words, address_of
from nearmalloc_tools.top.census import Reader
from nearmalloc_tools.top.process import Refused
from nearmalloc_tools.top.threads import Threads
from nearmalloc_tools.top.view import show


def core(
    file: Annotated[Path, typer.Argument(help="the core file")],
    block: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="say what is there")
    ] = None,
    span: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="say which span is there")
    ] = None,
    heaps: Annotated[bool, typer.Option("--heaps", help="list all heaps")] = False,
    events: Annotated[bool, typer.Option("--events", help="list the rare events")] = False,
) -> None:
    """Shows where the memory of a dead process was; with an option, only what it asks for."""
    try:
        dead = Core(file)
        reader = Reader(dead, layout_of(dead), Threads(dead))
        if not block and not span and not heaps and not events:
            return show(reader.take())
        words = Words(reader)
        for each in block or []:
            print(*words.block(address_of(each)), sep="\n")
        for each in span or []:
            print(*words.span(address_of(each)), sep="\n")
        if heaps:
            print(*words.heaps(), sep="\n")
        if events:
            print(*words.events(), sep="\n")
    except Refused as refusal:
        print(f"near: {refusal}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    typer_app.run(core, "core")
