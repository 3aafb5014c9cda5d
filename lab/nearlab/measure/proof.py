"""Proves which malloc serves a process: the dynamic linker's own rule, applied to its own list.

The first object of the link map, in search order, that defines the symbol `malloc` provides it to
everyone; the lab's counter and recorder only pass calls on, to the next one that defines it.
`launch` reads that list from the process itself at its exit; `maps_library` looks at one that still
runs. Names in the environment prove nothing: they say what was asked for.
"""

import functools
import re
import struct
from collections.abc import Iterable
from pathlib import Path

from nearlab import places

_SHT_DYNSYM = 11
_SHN_UNDEF = 0
_DEFINED_KINDS = {
    (binding, kind) for binding in (1, 2) for kind in (2, 10)
}  # GLOBAL, WEAK x FUNC, IFUNC

_NAMES = (
    (r"^libnearmalloc\.so", "nearmalloc"),
    (r"^libjemalloc\.so", "jemalloc"),
    (r"^libtcmalloc(_minimal)?\.so", "tcmalloc"),
    (r"^libmimalloc\.so\.2", "mimalloc2"),
    (r"^libmimalloc\.so", "mimalloc3"),
    (r"^libtbbmalloc(_proxy)?\.so", "tbb"),
    (r"^lib(limit|jemalloc5\.3\.1|google-tcmalloc|snmalloc|rpmalloc)\.so$", r"\1"),
    (rf"^lib({'|'.join(places.design_names())})\.so$", r"\1"),
    (r"^libc(\.so\.6|-\d.*\.so)$", "glibc"),
)

# Preloads of the lab: they come before the allocator and pass every call on to the next definition.
_PASSES_ON = re.compile(r"^lib(count|record)\.so$")


def allocator_name(path: str | Path) -> str:
    """`nearmalloc`, `glibc`, ... for a library known here, else its file name."""
    name = Path(path).resolve().name
    for pattern, allocator in _NAMES:
        if found := re.match(pattern, name):
            return found.expand(allocator)
    return name


@functools.cache
def defines(path: str, symbol: str = "malloc") -> bool:
    """True if the ELF64 file exports a definition of the function `symbol`."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    if data[:6] != b"\x7fELF\x02\x01":
        return False
    (table_at,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, entries = struct.unpack_from("<HH", data, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, table_at + i * entry_size) for i in range(entries)
    ]
    wanted = symbol.encode() + b"\0"
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SHT_DYNSYM:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, 24):
            name, info, _, section = struct.unpack_from("<IBBH", data, at)
            if section == _SHN_UNDEF or (info >> 4, info & 15) not in _DEFINED_KINDS:
                continue
            if data.startswith(wanted, strings + name):
                return True
    return False


def provider(objects: Iterable[str]) -> str | None:
    """Returns the file that provides malloc, given the objects of a process in search order. A
    counter or recorder of the lab passes calls on, so it is skipped."""
    definitions = (path for path in objects if defines(path))
    return next((path for path in definitions if not _PASSES_ON.match(Path(path).name)), None)


def served_by(objects: Iterable[str]) -> str:
    """The allocator's name; `unknown` when no object defines malloc (a static program)."""
    path = provider(objects)
    return "unknown" if path is None else allocator_name(path)


def mapped_files(pid: int) -> list[str]:
    """The files mapped by a process that runs now, in address order (which is not search order)."""
    seen: dict[str, None] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and parts[5].startswith("/"):
            seen[parts[5].removesuffix(" (deleted)")] = None
    return list(seen)


def maps_library(pid: int, library: str | Path) -> bool:
    """True if the process that runs now has `library` mapped."""
    wanted = str(Path(library).resolve())
    return any(str(Path(path).resolve()) == wanted for path in mapped_files(pid))
