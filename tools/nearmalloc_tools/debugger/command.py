"""`nearmalloc core FILE`: where the memory of a dead process was, and what an address was."""

from pathlib import Path

from nearmalloc_tools.debugger.core import Core, layout_of
from nearmalloc_tools.debugger.debugger_commands import DebuggerCommands, address_of
from nearmalloc_tools.top.census import Reader
from nearmalloc_tools.top.threads import Threads
from nearmalloc_tools.top.view import show


def core(file: Path, blocks: list[str], spans: list[str], heaps: bool, events: bool) -> None:
    """Shows a census of the core file; with any of the others, only what they ask for."""
    dead = Core(file)
    reader = Reader(dead, layout_of(dead), Threads(dead))
    if not blocks and not spans and not heaps and not events:
        show(reader.take())
        return
    commands = DebuggerCommands(reader)
    for each in blocks:
        print(*commands.block(address_of(each)), sep="\n")
    for each in spans:
        print(*commands.span(address_of(each)), sep="\n")
    if heaps:
        print(*commands.heaps(), sep="\n")
    if events:
        print(*commands.events(), sep="\n")
