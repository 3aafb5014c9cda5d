"""Names for the addresses of a result: source lines of code, symbols and fields of data.

addr2line (binutils) finds lines; nm finds symbols; the fields of a symbol's type come from the
DWARF of its library (pyelftools). What cannot be named is shown as a number.
"""

import bisect
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nearmanycore import types_of


@dataclass(frozen=True, slots=True)
class Module:
    """A mapping of a file."""

    begin: int
    end: int
    offset: int
    path: Path


@dataclass(frozen=True, slots=True)
class Place:
    """Code: the innermost function and its line, and the calls inlined around it."""

    function: str
    line: str

    def __str__(self) -> str:
        return f"{self.function} ({self.line})" if self.function else self.line


@dataclass(slots=True)
class Symbols:
    modules: list[Module]
    _places: dict[int, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, result: dict[str, Any]) -> "Symbols":
        found = [
            Module(int(each["begin"], 16), int(each["end"], 16), each["offset"], Path(each["path"]))
            for each in result["modules"]
        ]
        return cls(sorted(found, key=lambda module: module.begin))

    def _module(self, address: int) -> Module | None:
        at = bisect.bisect_right([module.begin for module in self.modules], address) - 1
        found = self.modules[at] if at >= 0 else None
        return found if found and address < found.end else None

    def _base(self, module: Module) -> int:
        return min(
            other.begin - other.offset for other in self.modules if other.path == module.path
        )

    def path(self, site: str) -> Path | None:
        """The file that the code at the site is in."""
        module = self._module(int(site, 16))
        return module.path if module else None

    def look_up(self, sites: Iterable[str]) -> None:
        """Finds the lines of many sites at once: one addr2line for each module."""
        wanted: dict[Module, list[int]] = {}
        for site in {int(text, 16) for text in sites}:
            if site not in self._places and (module := self._module(site)):
                wanted.setdefault(module, []).append(site)
        for module, addresses in wanted.items():
            # A site is where the call returns to: the call is before it.
            offsets = [f"{each - 1 - module.begin + module.offset:#x}" for each in addresses]
            answers = _addr2line(str(module.path), tuple(offsets))
            for address, answer in zip(addresses, answers, strict=True):
                self._places[address] = answer

    def place(self, site: str) -> Place:
        address = int(site, 16)
        if address not in self._places:
            self.look_up([site])
        return self._places.get(address, Place("", site))

    def data(self, address: int, size: int = 1) -> str | None:
        """`symbol.field` of a global at the address; None outside all modules. Zeroed data lies
        behind a module's last mapping of its file."""
        at = bisect.bisect_right([module.begin for module in self.modules], address) - 1
        if at < 0:
            return None
        module = self.modules[at]
        offset = address - self._base(module)
        for begin, length, name in _data_symbols(str(module.path)):
            if begin <= offset < begin + length:
                inside = offset - begin
                named = types_of.field_at(str(module.path), begin, inside, size)
                return f"{name}{named}" if named else f"{name}+{inside}" if inside else name
        return f"{module.path.name}+{offset:#x}" if address < module.end else None


@cache
def _addr2line(path: str, offsets: tuple[str, ...]) -> list[Place]:
    try:
        done = subprocess.run(
            ["addr2line", "-C", "-f", "-a", "-e", path, *offsets],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return [Place("", offset) for offset in offsets]
    lines = done.stdout.splitlines()
    answers = [
        Place(_short(lines[at + 1]), _short_line(lines[at + 2]))
        for at in range(0, len(lines) - 2, 3)
    ]
    return answers if len(answers) == len(offsets) else [Place("", offset) for offset in offsets]


def _short(function: str) -> str:
    """A function's name without its parameters."""
    name = function.replace("(anonymous namespace)::", "").partition("(")[0]
    return "" if name == "??" else name


def _short_line(line: str) -> str:
    path, _, number = line.partition(" (")[0].rpartition(":")
    return f"{Path(path).name}:{number}"


@cache
def _data_symbols(path: str) -> list[tuple[int, int, str]]:
    done = subprocess.run(["nm", "-CS", path], capture_output=True, text=True, check=False)
    found = []
    for line in done.stdout.splitlines():
        words = line.split(None, 3)
        if len(words) == 4 and words[2] in "BbDdRrVvSs":
            found.append((int(words[0], 16), int(words[1], 16), _short(words[3])))
    return found
