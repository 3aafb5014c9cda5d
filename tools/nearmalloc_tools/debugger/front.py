"""The commands that GDB and LLDB share: near block ADDR, near span ADDR, near heaps,
near events.

A debugger's Python imports this module. It may be another Python than that of `./near`, so the
packages come from build/venv, and only if that is of the same version.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(1, str(_ROOT / "build" / "venv" / "lib" / _VERSION / "site-packages"))
try:
    from nearmalloc_tools.debugger.debugger_commands import Words
    from nearmalloc_tools.top.census import Reader
    from nearmalloc_tools.top.process import SYMBOL, Layout, Process, Refused
    from nearmalloc_tools.top.threads import Threads
except ImportError as error:
    raise ImportError(
        f"the commands of nearmalloc need Python packages for {_VERSION}: run ./near top --help "
        f"once ({error})"
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
    of_address: Callable[[Words, int], list[str]] | None = None
    of_all: Callable[[Words], list[str]] | None = None

    def answer(self, debugger: Debugger, argument: str) -> list[str]:
        """The lines to print; raises Refused."""
        if self.of_address and not argument:
            raise Refused("it needs an address, or an expression that is one")
        if self.of_all and argument:
            raise Refused("it takes no argument")
        layout = debugger.symbol(SYMBOL)
        if layout is None:
            raise Refused("this program does not run on nearmalloc")
        words = Words(Reader(debugger, Layout(debugger, layout), Threads(debugger)))
        if self.of_address:
            return self.of_address(words, debugger.value(argument))
        return self.of_all(words) if self.of_all else []


ABOUT = "What nearmalloc knows of an address, or of its heaps."
COMMANDS = (
    Command(
        "block",
        "near block ADDR: the block that has the address, live or free, and its neighbours.",
        of_address=Words.block,
    ),
    Command("span", "near span ADDR: the span that has the address.", of_address=Words.span),
    Command("heaps", "near heaps: all heaps, with their nodes and states.", of_all=Words.heaps),
    Command(
        "events",
        "near events: the rare events that the process remembers, the newest first.",
        of_all=Words.events,
    ),
)
