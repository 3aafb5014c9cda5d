"""Proves which malloc serves a process: the dynamic linker's own rule, applied to its own list.

The first object of the link map, in search order, that defines the symbol `malloc` provides it to
everyone; the lab's counter and recorder only pass calls on, to the next one that defines it.
`launch` reads that list from the process itself at its exit. Names in the environment prove
nothing: they say what was asked for.
"""

import functools
import re
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
    """True if the ELF file exports a definition of the symbol: a hash table has no others."""
    from elftools.common.exceptions import ELFError  # the command `list` does without it
    from elftools.elf.elffile import ELFFile
    from elftools.elf.hash import ELFHashSection, GNUHashSection

    try:
        with Path(path).open("rb") as file:
            elf = ELFFile(file)
            tables = (elf.get_section_by_name(name) for name in (".gnu.hash", ".hash"))
            return any(
                found["st_shndx"] != "SHN_UNDEF"
                for table in tables
                if isinstance(table, GNUHashSection | ELFHashSection)
                and (found := table.get_symbol(symbol))
            )
    except (OSError, ELFError):
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
