"""The commands that GDB and LLDB share: near block ADDR, near span ADDR, near heaps,
near events.

A debugger's Python imports this module. It may be another Python than that of `nearmalloc`. So
pyelftools is searched where that Python looks, beside this package, and in the build's virtual
environment: it is pure Python, of which any version will do.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
sys.path += map(str, (_ROOT / "build" / "venv" / "lib").glob("python3*/site-packages"))
try:
    from nearmalloc_tools.debugger.debugger_commands import DebuggerCommands
    from nearmalloc_tools.errors import Refused
    from nearmalloc_tools.top.census import Reader
    from nearmalloc_tools.top.process import SYMBOL, Layout, Process
    from nearmalloc_tools.top.threads import Threads
except ImportError as error:
    raise ImportError(
        f"the commands of nearmalloc need Python 3.11 and pyelftools (Debian: python3-pyelftools; "
        f"else: pip install pyelftools), this is Python {sys.version.split()[0]}: {error}"
    ) from error


class Debugger(Process):
    """The memory that a debugger shows, of a process or a core file."""

    def __init__(self, pid: int) -> None:
        self.pid, self.name = pid, "program"

    def symbol(self, name: str, first: tuple[str, ...] = ()) -> int | None:
        """The address of a symbol; None if the program has none."""
        raise NotImplementedError

    def threads(self) -> dict[int, int]:
        """The number of each thread, by itself."""
        raise NotImplementedError

    def name_of(self, thread: int) -> None:
        return None

    def value(self, expression: str) -> int:
        """The number or address that an expression of the program's language means."""
        raise NotImplementedError

    def resident(self) -> int:
        return 0

    def clock(self) -> None:
        return None


@dataclass(frozen=True)
class Command:
    """A command `near NAME`, on an address or on nothing."""

    name: str
    help: str
    of_address: Callable[[DebuggerCommands, int], list[str]] | None = None
    of_all: Callable[[DebuggerCommands], list[str]] | None = None

    def answer(self, debugger: Debugger, argument: str) -> list[str]:
        """The lines to print; raises Refused."""
        if self.of_address and not argument:
            raise Refused("it needs an address, or an expression that is one")
        if self.of_all and argument:
            raise Refused("it takes no argument")
        layout = debugger.symbol(SYMBOL)
        if layout is None:
            raise Refused("this program does not run on nearmalloc")
        reader = Reader(debugger, Layout(debugger, layout), Threads(debugger))
        commands = DebuggerCommands(reader)
        if self.of_address:
            return self.of_address(commands, debugger.value(argument))
        return self.of_all(commands) if self.of_all else []


ABOUT = "What nearmalloc knows of an address, or of its heaps."
COMMANDS = (
    Command(
        "block",
        "near block ADDR: the block that has the address, live or free, and its neighbours.",
        of_address=DebuggerCommands.block,
    ),
    Command(
        "span",
        "near span ADDR: the span that has the address.",
        of_address=DebuggerCommands.span,
    ),
    Command(
        "heaps",
        "near heaps: all heaps, with their nodes and states.",
        of_all=DebuggerCommands.heaps,
    ),
    Command(
        "events",
        "near events: the rare events that the process remembers, the newest first.",
        of_all=DebuggerCommands.events,
    ),
)
