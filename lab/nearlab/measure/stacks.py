"""The call stacks of a recorded trace: which of them allocated most, with names of functions.

The recorder (lab/bench/record.c) writes FILE.stacks; lab/bench/trace_format.h says what is in it.
Invariant: an address without a name is shown as OBJECT+0xOFFSET, and nothing is left out of a sum.
In a stripped object addr2line knows exported functions alone, and names the nearest one before.
"""

import functools
import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

_ENTRY = struct.Struct("<16Q")  # calls, bytes, 14 frames
_TABLE_BYTES = _ENTRY.size << 16
_MAPPED = re.compile(r"(\w+)-(\w+) r-xp (\w+) \S+ \d+ +(/.*)")
_OWN = "librecord.so"


@dataclass(frozen=True, slots=True)
class Stack:
    """What one call stack allocated; frames are names, innermost first."""

    calls: int
    bytes: int
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Object:
    start: int
    end: int
    offset: int  # in the file, of what is mapped at the start
    path: str


def file_of(trace: Path) -> Path:
    return trace.with_name(f"{trace.name}.stacks")


def most(trace: Path, count: int) -> list[Stack]:
    """The stacks that allocated most bytes; none if stacks were not recorded."""
    file = file_of(trace)
    if not file.is_file():
        return []
    data = file.read_bytes()
    entries = [entry for entry in _ENTRY.iter_unpack(data[:_TABLE_BYTES]) if entry[0]]
    maps = data[_TABLE_BYTES:].decode(errors="replace")
    objects = [
        _Object(int(start, 16), int(end, 16), int(offset, 16), path)
        for start, end, offset, path in _MAPPED.findall(maps)
    ]
    chosen = sorted(entries, key=lambda entry: -entry[1])[:count]
    return [Stack(calls, size, _named(frames, objects)) for calls, size, *frames in chosen]


def _named(frames: Sequence[int], objects: Sequence[_Object]) -> tuple[str, ...]:
    named = []
    for frame in filter(None, frames):
        at = frame - 1  # inside the call, which the return address is behind
        found = next((one for one in objects if one.start <= at < one.end), None)
        if found is None:
            named.append(f"{frame:#x}")
        elif not found.path.endswith(_OWN):
            named.append(_name(found.path, at - found.start + found.offset))
    return tuple(named)


@functools.cache
def _name(path: str, offset: int) -> str:
    """The function at the offset in the file, without what its name has in parentheses."""
    try:
        asked = subprocess.run(
            ["addr2line", "-Cfe", path, hex(offset + _base(path, offset))],
            capture_output=True,
            text=True,
            check=True,
        )
        name = asked.stdout.partition("\n")[0].partition("(")[0]
    except (OSError, subprocess.SubprocessError):
        name = "??"
    return f"{Path(path).name}+{offset:#x}" if name == "??" else name


def _base(path: str, offset: int) -> int:
    """What is added to an offset in the file to get the address that the file names."""
    try:
        with Path(path).open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                if segment["p_offset"] <= offset < segment["p_offset"] + segment["p_filesz"]:
                    return int(segment["p_vaddr"] - segment["p_offset"])
    except ELFError:
        pass
    return 0
