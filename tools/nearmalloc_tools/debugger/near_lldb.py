"""Commands for LLDB, on a process or a core file: near block ADDR, near span ADDR, near
heaps, near events.

    (lldb) command script import /usr/local/share/nearmalloc/near_lldb.py

It needs LLDB 14 or later with Python 3.11 or later, and pyelftools.
"""

import sys
from pathlib import Path
from typing import Any

import lldb  # type: ignore[import-not-found]  # only LLDB has it

# This file lies in the package, or in share/nearmalloc, where `cmake --install` puts it.
_FOLDER = Path(__file__).resolve().parents[2]
_INSTALLED = _FOLDER / "lib" / "nearmalloc" / "python"
sys.path.insert(0, str(_INSTALLED if _INSTALLED.is_dir() else _FOLDER))
from nearmalloc_tools.debugger import front  # noqa: E402
from nearmalloc_tools.errors import Refused  # noqa: E402


class Target(front.Debugger):
    """The memory that LLDB shows."""

    def __init__(self, context: Any) -> None:
        self._target, self._process = context.target, context.process
        self._frame = context.frame
        super().__init__(self._process.GetProcessID() if self._process else 0)

    def symbol(self, name: str, first: tuple[str, ...] = ()) -> int | None:
        if not self._process:
            raise Refused("there is no process")
        for found in self._target.FindSymbols(name):
            address = found.symbol.addr.GetLoadAddress(self._target)
            if address != lldb.LLDB_INVALID_ADDRESS:
                return int(address)
        return None

    def threads(self) -> dict[int, int]:
        numbers = [int(thread.GetThreadID()) for thread in self._process]
        return {number: number for number in numbers}

    def value(self, expression: str) -> int:
        words = f"(unsigned long)({expression})"
        where = self._frame if self._frame else self._target
        result, error = where.EvaluateExpression(words), lldb.SBError()
        number = int(result.GetValueAsUnsigned(error))
        for each in (result.error, error):
            if each.Fail():
                raise Refused(str(each.GetCString()).strip())
        return number

    def read(self, address: int, size: int) -> bytes:
        if size == 0:
            return b""
        # A core file leaves out what the program's files have; the target reads it there.
        error, where = lldb.SBError(), lldb.SBAddress(address, self._target)
        content = self._target.ReadMemory(where, size, error)
        if error.Fail() or content is None or len(content) != size:
            raise Refused(f"cannot read {address:#x}: {error.GetCString()}")
        return bytes(content)


def _class_of(command: front.Command) -> type:
    """The class that LLDB makes the command from."""

    class OfNear:
        def __init__(self, debugger: Any, dictionary: Any) -> None:
            pass

        def __call__(self, debugger: Any, argument: str, context: Any, result: Any) -> None:
            try:
                result.PutCString("\n".join(command.answer(Target(context), argument)))
            except Refused as refusal:
                result.SetError(str(refusal))

        def get_short_help(self) -> str:
            return command.help

    return OfNear


CLASSES = {each.name: _class_of(each) for each in front.COMMANDS}


def __lldb_init_module(debugger: Any, dictionary: Any) -> None:  # LLDB calls it
    debugger.HandleCommand(f"command container add --overwrite --help '{front.ABOUT}' near")
    for name, found in CLASSES.items():
        globals()[name] = found
        add = f"command script add --overwrite --class {__name__}.{name} near {name}"
        debugger.HandleCommand(add)
