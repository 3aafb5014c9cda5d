"""The command `list`: it prints the plans, workloads, real programs and allocators.

Invariant: what is missing is listed with the reason; nothing is installed or built, and only Python
itself is needed.
"""

import shutil
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from nearlab import peers, places, programs
from nearlab.plan import workloads

_GAP = 2
_WIDTH = 180  # if stdout is no terminal


def list_all() -> None:
    """Lists plans, workloads, real programs and allocators."""
    parts: dict[str, Callable[[], Iterable[Sequence[str]]]] = {
        "Plans": _plans,
        "Workloads": _workloads,
        "Real programs": _programs,
        "Allocators": _allocators,
    }
    with ThreadPoolExecutor(len(parts)) as pool:  # programs and libraries take a while to answer
        found = pool.map(lambda rows: _columns(list(rows())), parts.values())
    for title, columns in zip(parts, found, strict=True):
        print(f"{title}\n{columns}\n")


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """The rows with each column as wide as its widest entry; the last one is wrapped."""
    if not rows:
        return "  none"
    widths = [max(len(row[at]) for row in rows) + _GAP for at in range(len(rows[0]) - 1)]
    width = max(40, shutil.get_terminal_size((_WIDTH, 24)).columns - sum(widths) - _GAP)
    lines = []
    for row in rows:
        start = "".join(f"{word:{size}}" for word, size in zip(row[:-1], widths, strict=True))
        wrapped = textwrap.wrap(row[-1], width) or [""]
        lines += [f"  {start}{wrapped[0]}".rstrip()]
        lines += [" " * (_GAP + len(start)) + more for more in wrapped[1:]]
    return "\n".join(lines)


def _plans() -> Iterable[tuple[str, str]]:
    for path in places.plan_files():
        try:
            keys = tomllib.loads(path.read_text(encoding="utf-8"))
            yield path.stem, keys.get("title") or keys.get("description") or ""
        except (OSError, ValueError) as error:
            yield path.stem, f"cannot be run: {error}"


def _workloads() -> Iterable[tuple[str, str]]:
    for name in workloads.known():
        reason = workloads.missing(name)
        state = f" (missing: {reason})" if reason else ""
        yield name, workloads.description(name) + state


def _programs() -> Iterable[tuple[str, str, str]]:
    for name, program in programs.listed().items():
        missing = program.missing()
        state = program.version_line() or "installed"
        if missing:
            state = f"missing: {', '.join(sorted(set(missing.values())))}"
        yield programs.PREFIX + name, program.title, state


def _allocators() -> Iterable[tuple[str, str, str, str]]:
    for one in peers.find_all(None if places.INSTALLED else peers.NAMES):
        state = f"missing: {one.missing}" if one.missing else one.flags
        yield one.name, one.group, one.version, state
