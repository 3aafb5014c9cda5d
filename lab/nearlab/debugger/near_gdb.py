"""Commands for GDB, on a process or a core file: near block ADDR, near span ADDR, near heaps.

    (gdb) source lab/nearlab/debugger/near_gdb.py

It needs a GDB with Python 3.11 or later, and numpy and pyelftools, which `./near top` installs.
"""

import sys
from pathlib import Path

import gdb  # type: ignore[import-untyped]  # only GDB has it

_ROOT = Path(__file__).resolve().parents[3]
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
sys.path[:0] = [
    str(_ROOT / "lab"),
    str(_ROOT / "build" / "venv" / "lib" / _VERSION / "site-packages"),
]
try:
    from nearlab.debugger.words import Words
    from nearlab.top.census import Reader
    from nearlab.top.process import SYMBOL, Layout, Process, Refused
except ImportError as error:
    raise gdb.GdbError(
        f"the commands of nearmalloc need Python packages for {_VERSION}: run ./near top --help "
        f"once ({error})"
    ) from error


class Inferior(Process):
    """The memory that GDB shows, of a process or a core file."""

    def __init__(self) -> None:
        self.pid = gdb.selected_inferior().pid
        self.name = "program"

    def read(self, address: int, size: int) -> bytes:
        if size == 0:
            return b""
        try:
            return bytes(gdb.selected_inferior().read_memory(address, size))
        except gdb.MemoryError as error:
            raise Refused(f"cannot read {address:#x}: {error}") from error

    def resident(self) -> int:
        return 0

    def clock(self) -> None:
        return None


def _words() -> Words:
    try:
        layout = int(gdb.parse_and_eval(f"(unsigned long)&{SYMBOL}"))
        process = Inferior()
        return Words(Reader(process, Layout(process, layout)))
    except gdb.error as error:
        raise gdb.GdbError(f"this program does not run on nearmalloc ({error})") from error


class Near(gdb.Command):  # type: ignore[misc]
    """What nearmalloc knows of an address, or of its heaps."""

    def __init__(self) -> None:
        super().__init__("near", gdb.COMMAND_DATA, prefix=True)


class _OfAddress(gdb.Command):  # type: ignore[misc]
    """A command about an address."""

    def say(self, words: Words, address: int) -> list[str]:
        raise NotImplementedError

    def invoke(self, argument: str, from_tty: bool) -> None:
        if not argument:
            raise gdb.GdbError("it needs an address, or an expression that is one")
        address = int(gdb.parse_and_eval(f"(unsigned long)({argument})"))
        try:
            for line in self.say(_words(), address):
                print(line)
        except Refused as refusal:
            raise gdb.GdbError(str(refusal)) from refusal


class NearBlock(_OfAddress):
    """near block ADDR: the block that has the address, live or free, and its neighbours."""

    def __init__(self) -> None:
        super().__init__("near block", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def say(self, words: Words, address: int) -> list[str]:
        return words.block(address)


class NearSpan(_OfAddress):
    """near span ADDR: the span that has the address."""

    def __init__(self) -> None:
        super().__init__("near span", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def say(self, words: Words, address: int) -> list[str]:
        return words.span(address)


class NearHeaps(gdb.Command):  # type: ignore[misc]
    """near heaps: all heaps, with their nodes and states."""

    def __init__(self) -> None:
        super().__init__("near heaps", gdb.COMMAND_DATA)

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            for line in _words().heaps():
                print(line)
        except Refused as refusal:
            raise gdb.GdbError(str(refusal)) from refusal


Near()
NearBlock()
NearSpan()
NearHeaps()
