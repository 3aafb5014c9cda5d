"""Proves which malloc serves a process: the dynamic linker's own rule, applied to its own list.

The first object of the link map, in search order, that defines the symbol `malloc` provides it to
everyone; the lab's counter and recorder only pass calls on, to the next one that defines it.
`launch` reads that list from the process itself at its exit. Names in the environment prove
nothing: they say what was asked for.
"""

import functools
import mmap
import re
import struct
from collections.abc import Iterable
from pathlib import Path

from nearlab import places

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

# Of elf(5), as the runs need it before any package is installed.
_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_DYNAMIC_SYMBOLS = 11
_SECTION = struct.Struct("<4xI16xQQI20x")  # type, offset, size, link
_SYMBOL = struct.Struct("<IBxH16x")  # name, binding and type, section

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
    """True if the ELF file, of 64 bits, exports a definition of the symbol."""
    try:
        with (
            Path(path).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image,
        ):
            return image[:6] == _ELF64_LITTLE_ENDIAN and _exports(image, symbol.encode() + b"\0")
    except (OSError, ValueError, IndexError, struct.error):  # unreadable, empty, no such tables
        return False


def _exports(image: mmap.mmap, name: bytes) -> bool:
    """Whether the table of dynamic symbols has a global or weak definition of the name."""
    (table,) = struct.unpack_from("<Q", image, 40)
    entry, count = struct.unpack_from("<HH", image, 58)
    sections = [_SECTION.unpack_from(image, table + i * entry) for i in range(count)]
    for kind, offset, size, link in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        strings = sections[link][1]
        for at, info, defined_in in _SYMBOL.iter_unpack(image[offset : offset + size]):
            begin = strings + at
            if defined_in and info >> 4 and image[begin : begin + len(name)] == name:
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
