"""Commands for GDB, on a process or a core file: near block ADDR, near span ADDR, near
heaps, near events.

    (gdb) source /usr/local/share/nearmalloc/near_gdb.py

It needs a GDB with Python 3.11 or later, and pyelftools.
"""

import sys
from pathlib import Path

import gdb  # type: ignore[import-untyped]  # only GDB has it

# This file lies in the package, or in share/nearmalloc, where `cmake --install` puts it.
_FOLDER = Path(__file__).resolve().parents[2]
_INSTALLED = _FOLDER / "lib" / "nearmalloc" / "python"
sys.path.insert(0, str(_INSTALLED if _INSTALLED.is_dir() else _FOLDER))
try:
    from nearmalloc_tools.debugger import front
    from nearmalloc_tools.errors import Refused
except ImportError as error:
    raise gdb.GdbError(str(error)) from error


class Inferior(front.Debugger):
    """The memory that GDB shows."""

    def __init__(self) -> None:
        super().__init__(gdb.selected_inferior().pid)

    def symbol(self, name: str, first: tuple[str, ...] = ()) -> int | None:
        try:
            return self.value(f"&{name}")
        except Refused:
            return None

    def threads(self) -> dict[int, int]:
        numbers = [thread.ptid[1] for thread in gdb.selected_inferior().threads()]
        return {number: number for number in numbers}

    def value(self, expression: str) -> int:
        try:
            return int(gdb.parse_and_eval(f"(unsigned long)({expression})"))
        except gdb.error as error:
            raise Refused(str(error)) from error

    def read(self, address: int, size: int) -> bytes:
        if size == 0:
            return b""
        try:
            return bytes(gdb.selected_inferior().read_memory(address, size))
        except gdb.MemoryError as error:
            raise Refused(f"cannot read {address:#x}: {error}") from error


class Near(gdb.Command):  # type: ignore[misc]
    def __init__(self) -> None:
        self.__doc__ = front.ABOUT
        super().__init__("near", gdb.COMMAND_DATA, prefix=True)


class OfNear(gdb.Command):  # type: ignore[misc]
    def __init__(self, command: front.Command) -> None:
        self.__doc__ = command.help
        self._command = command
        super().__init__(f"near {command.name}", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            print(*self._command.answer(Inferior(), argument), sep="\n")
        except Refused as refusal:
            raise gdb.GdbError(str(refusal)) from refusal


Near()
for each in front.COMMANDS:
    OfNear(each)
