"""Names of addresses: which file has them, and what addr2line says about that file; or which piece
of code that the program compiled while it ran.

Invariant: a file whose build id is not the recorded one gives no names.
"""

import shutil
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nearlab.profile.perf_map import PerfMap
from nearlab.profile.shorten import short

_PT_LOAD, _PT_NOTE, _NT_GNU_BUILD_ID = 1, 4, 3


@dataclass(frozen=True, slots=True)
class Module:
    """A code segment of a file, as the profile records it."""

    start: int
    end: int
    offset: int
    build_id: str
    file: str


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that is on the stack, perhaps inlined into the next one."""

    function: str
    place: str  # file and line, or empty

    @property
    def short(self) -> str:
        """The function's name as people say it."""
        return short(self.function)


def _align(size: int) -> int:
    return (size + 3) // 4 * 4


def _build_id(notes: bytes) -> str:
    while len(notes) >= 12:
        name, length, kind = struct.unpack_from("<3I", notes)
        start = 12 + _align(name)
        if kind == _NT_GNU_BUILD_ID and notes[12:15] == b"GNU":
            return notes[start : start + length].hex()
        notes = notes[start + _align(length) :]
    return ""


@cache
def segments(file: str) -> tuple[list[tuple[int, int, int]], str]:
    """The offset, size and address of each loaded segment of an ELF file, and its build id."""
    try:
        data = Path(file).read_bytes()
    except OSError:
        return [], ""
    if data[:5] != b"\x7fELF\x02":
        return [], ""
    table, size, count = struct.unpack_from("<32xQ14xHH", data)
    loaded, build_id = [], ""
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", data, table + number * size
        )
        if kind == _PT_LOAD:
            loaded.append((offset, length, address))
        elif kind == _PT_NOTE and not build_id:
            build_id = _build_id(data[offset : offset + length])
    return loaded, build_id


def _address_in_file(module: Module, address: int) -> int | None:
    loaded, build_id = segments(module.file)
    if build_id != module.build_id:
        return None
    place = address - module.start + module.offset
    for offset, length, start in loaded:
        if offset <= place < offset + length:
            return place - offset + start
    return None


def _ask(file: str, addresses: list[int]) -> dict[int, list[Frame]]:
    """What addr2line says; the innermost inlined function first."""
    tool = shutil.which("addr2line")
    if tool is None or not addresses:
        return {}
    said = subprocess.run(
        [tool, "-a", "-f", "-i", "-C", "-e", file],
        input="".join(f"{address:#x}\n" for address in addresses),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    ).stdout.splitlines()
    found: dict[int, list[Frame]] = {}
    frames: list[Frame] = []
    at = 0
    while at < len(said):
        if said[at].startswith("0x"):
            frames = found.setdefault(int(said[at], 16), [])
            at += 1
        elif at + 1 < len(said):
            place = said[at + 1].split(" (discriminator")[0]
            if said[at] != "??":
                frames.append(Frame(said[at], "" if place.startswith("??") else place))
            at += 2
        else:
            break
    return found


def _last_part(name: str) -> str:
    return short(name).rsplit("::", 1)[-1]


def without_false_name(frames: list[Frame]) -> list[Frame]:
    """addr2line calls the innermost inlined function by the symbol that it is inlined into, if it
    has no name for linkers, as in a namespace without a name. Its caller then has its place."""
    if len(frames) < 2 or _last_part(frames[0].function) != _last_part(frames[-1].function):
        return frames
    return [Frame(frames[1].function, frames[0].place), *frames[2:]]


class Symbols:
    """Names for the addresses of one profile."""

    def __init__(
        self, modules: Iterable[Module], addresses: Iterable[int], compiled: PerfMap | None = None
    ) -> None:
        self._compiled = compiled or PerfMap("")
        self._modules = sorted(modules, key=lambda module: module.start)
        self._starts = [module.start for module in self._modules]
        wanted: dict[str, dict[int, int]] = {}
        for address in set(addresses):
            module = self._module_of(address)
            place = _address_in_file(module, address) if module else None
            if module and place is not None:
                wanted.setdefault(module.file, {})[address] = place
        self._frames: dict[int, list[Frame]] = {}
        for file, places in wanted.items():
            said = _ask(file, sorted(set(places.values())))
            for address, place in places.items():
                self._frames[address] = without_false_name(said.get(place, []))

    def _module_of(self, address: int) -> Module | None:
        index = bisect_right(self._starts, address) - 1
        module = self._modules[index] if index >= 0 else None
        return module if module and address < module.end else None

    def frames(self, address: int) -> list[Frame]:
        """At least one; the innermost first."""
        if found := self._frames.get(address):
            return found
        module = self._module_of(address)
        if module is None:
            return [Frame(self._compiled.name(address) or f"{address:#x}", "")]
        return [Frame(f"{Path(module.file).name}+{address - module.start + module.offset:#x}", "")]
