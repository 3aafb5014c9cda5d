"""How many calls of the malloc family each executable made, as support/counting_malloc.c counts.

Invariant: the layout is that of `struct Program` there.
Thread-safety: the scripts of this folder, when the processes that count have ended.
"""

import struct
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

PROGRAMS = 256
ENTRY = struct.Struct("<208s6Q")
NAMED = 2


@dataclass(frozen=True)
class Count:
    path: str
    allocated: int
    resized: int
    freed: int
    ours: int  # processes that nearmalloc serves
    others: int

    @property
    def calls(self) -> int:
        return self.allocated + self.resized + self.freed

    def is_one_of(self, names: list[str]) -> bool:
        return any(fnmatch(Path(self.path).name, name) for name in names)


def make(path: Path) -> None:
    path.write_bytes(bytes(PROGRAMS * ENTRY.size))
    path.chmod(0o666)  # a server counts on after it gave up root


def read(path: Path) -> list[Count]:
    entries = [ENTRY.unpack_from(path.read_bytes(), index * ENTRY.size)
               for index in range(PROGRAMS)]
    return [Count(name.partition(b"\0")[0].decode(errors="replace"), *numbers)
            for name, state, *numbers in entries if state == NAMED]
