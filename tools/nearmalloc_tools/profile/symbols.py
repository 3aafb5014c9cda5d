"""Names of addresses: which file has them, and what addr2line says about that file; or which piece
of code that the program compiled while it ran.

Invariant: a file whose build id is not the recorded one gives no names, and neither does what is no
regular file.
"""

import os
import re
import shutil
import stat
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from nearmalloc_tools.profile.perf_map import PerfMap
from nearmalloc_tools.profile.shorten import short
from nearmalloc_tools.safe_open import safe_open

_PT_LOAD, _PT_NOTE, _NT_GNU_BUILD_ID = 1, 4, 3
_ADDRESS = re.compile("0x[0-9a-f]+")
_MOST_NOTES = 1 << 16  # bytes of a segment of notes
_NOBODY = 65534  # a group without rights
_MOST_SECONDS = 60  # to read another user's file


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


def shown(name: str) -> str:
    """A name that another process chose, without what controls a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


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
        with safe_open(file) as stream:
            return _segments(stream)
    except (OSError, ValueError, struct.error):  # it is cut, or no ELF file
        return [], ""


def _segments(stream: BinaryIO) -> tuple[list[tuple[int, int, int]], str]:
    header = stream.read(64)
    if header[:5] != b"\x7fELF\x02":
        return [], ""
    table, size, count = struct.unpack_from("<32xQ14xHH", header)
    loaded, build_id = [], ""
    for number in range(count):
        stream.seek(table + number * size)
        kind, _, offset, address, _, length = struct.unpack("<IIQQQQ", stream.read(40))
        if kind == _PT_LOAD:
            loaded.append((offset, length, address))
        elif kind == _PT_NOTE and not build_id:
            stream.seek(offset)
            build_id = _build_id(stream.read(min(length, _MOST_NOTES)))
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


def _is_roots(file: str) -> bool:
    """Only root can change the file, or put another one in its place."""
    real = Path(os.path.realpath(file))
    found = [each.stat() for each in (real, *real.parents)]
    return all(
        each.st_uid == 0 and (not each.st_mode & stat.S_IWOTH or each.st_mode & stat.S_ISVTX)
        for each in found
    )


def _addr2line(tool: str, file: str, addresses: list[int]) -> str:
    options: dict[str, Any] = {}
    with safe_open(file) as stream:
        # addr2line was not written for files of an attacker. Root lets it read a file that others
        # can change with the rights of its owner.
        if os.getuid() == 0 and not _is_roots(file):
            options = {"user": os.fstat(stream.fileno()).st_uid, "group": _NOBODY}
            options |= {"extra_groups": [], "timeout": _MOST_SECONDS}
            options |= {"pass_fds": [stream.fileno()]}
            file = f"/proc/self/fd/{stream.fileno()}"
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [tool, "-a", "-f", "-i", "-C", "-e", file],
            input="".join(f"{address:#x}\n" for address in addresses),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            **options,
        )
    return done.stdout


def _ask(file: str, addresses: list[int]) -> dict[int, list[Frame]]:
    """What addr2line says; the innermost inlined function first."""
    tool = shutil.which("addr2line")
    if tool is None or not addresses:
        return {}
    try:
        said = _addr2line(tool, file, addresses).splitlines()
    except (OSError, subprocess.SubprocessError):  # it has just been deleted, or takes too long
        return {}
    found: dict[int, list[Frame]] = {}
    frames: list[Frame] = []
    at = 0
    while at < len(said):
        if _ADDRESS.fullmatch(said[at]):
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
    has no name for linkers, as in a namespace without a name. Its caller then has its place. That
    symbol's own frame has the same name, or only the last part of it."""
    if len(frames) < 2:
        return frames
    inner, outer = frames[0].function, frames[-1].function
    if outer not in (inner, _last_part(inner)):
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
        found = self._frames.get(address) or [Frame(self._name(address), "")]
        return [Frame(shown(frame.function), shown(frame.place)) for frame in found]

    def _name(self, address: int) -> str:
        """That of code which the file does not name."""
        module = self._module_of(address)
        if module is None:
            return self._compiled.name(address) or f"{address:#x}"
        return f"{Path(module.file).name}+{address - module.start + module.offset:#x}"
