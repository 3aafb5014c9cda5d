"""Where a program can keep pointers: its variables, the stacks of its threads, and memory that it
mapped itself. Not the allocator's own memory, and not the stacks of threads that have ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass

_GUARD = 4096

Range = tuple[int, int]


@dataclass(frozen=True)
class Map:
    start: int
    end: int
    rights: str
    path: str  # empty: anonymous

    @property
    def is_guard(self) -> bool:
        return self.rights.startswith("---") and not self.path


def parse(text: str) -> list[Map]:
    """Reads /proc/PID/maps."""
    out = []
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in words[0].split("-"))
        out.append(Map(start, end, words[1], words[5] if len(words) > 5 else ""))
    return out


def stack_limit(text: str) -> int:
    """The size of a thread's stack by default, from /proc/PID/limits; 2 MiB without a limit."""
    for line in text.splitlines():
        if line.startswith("Max stack size"):
            soft = line.split()[3]
            return 2 << 20 if soft == "unlimited" else int(soft)
    return 2 << 20


def _without(whole: Range, holes: Iterable[Range]) -> list[Range]:
    out, begin = [], whole[0]
    for start, end in sorted(holes):
        if end <= begin or start >= whole[1]:
            continue
        if start > begin:
            out.append((begin, start))
        begin = max(begin, end)
    if begin < whole[1]:
        out.append((begin, whole[1]))
    return out


def find(
    maps: list[Map], own: list[Range], stack_begins: Iterable[int], stack_bytes: int
) -> list[Range]:
    """The ranges to scan. glibc keeps the stacks of threads that have ended for new threads: such a
    mapping lies behind a guard, has the default size or more, and no thread's stack in use."""
    out: list[Range] = []
    begins = list(stack_begins)
    for number, each in enumerate(maps):
        if not each.rights.startswith("rw"):
            continue
        whole = (each.start, each.end)
        inside = [begin for begin in begins if each.start <= begin < each.end]
        guarded = number > 0 and maps[number - 1].is_guard and maps[number - 1].end == each.start
        if inside and (guarded or each.path == "[stack]"):
            whole = (min(inside), each.end)
        elif guarded and not each.path and each.end - each.start >= stack_bytes - _GUARD:
            whole = (each.start + stack_bytes - _GUARD, each.end)
        out.extend(_without(whole, own))
    return out
