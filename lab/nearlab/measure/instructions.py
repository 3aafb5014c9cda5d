"""Counts the instructions of a malloc with its free, exactly, by callgrind.

For each mode and size: instructions of a long run less those of a short one, per pair, less the
same for the loop that calls empty functions, plus the 2 that those execute. So what remains is
malloc, free and the jump to each through the procedure linkage table. Start-up and other threads,
such as an allocator's own, are not counted.
The definition is checked on glibc 2.36, whose count is known (lab/tests).
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearlab import peers, places
from nearlab.measure import callgrind
from nearlab.peers import Allocator
from nearlab.plan import chosen

MODES = ("pair", "batch")
SIZES = (16, 64, 256, 1024, 32768)
# The limits for nearmalloc.
LIMITS = {
    **{("pair", size): limit for size, limit in zip(SIZES, (36, 36, 36, 36, 70), strict=True)},
    **{("batch", size): limit for size, limit in zip(SIZES, (36, 36, 44, 60, 200), strict=True)},
}
_BATCH = 1000
_WIDTH = 180  # of the table if stdout is no terminal
_EMPTY_FUNCTIONS = 2
# Rounds of the short and the long run. The long run is long enough to include the rare slow paths.
_ROUNDS = {"pair": (5_000, 105_000), "batch": (10, 110)}


class CountError(RuntimeError):
    """There is no count; the message says why."""


def count(
    allocators: Sequence[Allocator],
    *,
    modes: Sequence[str] = MODES,
    sizes: Sequence[int] = SIZES,
    advance: Callable[[str], None] = lambda label: None,
) -> dict[str, dict[tuple[str, int], float | str]]:
    """{allocator: {(mode, size): instructions, or why there are none}}, for those available."""
    empty = {mode: _per_pair(mode, sizes[0], None, {}, "empty") for mode in modes}
    cells = [
        (allocator, mode, size)
        for allocator in allocators
        if allocator.available
        for mode in modes
        for size in sizes
    ]
    table: dict[str, dict[tuple[str, int], float | str]] = {}

    def one(cell: tuple[Allocator, str, int]) -> float | str:
        allocator, mode, size = cell
        try:
            environment = dict(allocator.environment)
            found = _per_pair(mode, size, allocator.library, environment, "malloc")
        except CountError as error:
            return str(error)
        finally:
            advance(f"{allocator.label}, {mode} {size}")
        return found - empty[mode] + _EMPTY_FUNCTIONS

    with ThreadPoolExecutor(max_workers=2) as pool:  # other processes do not change the counts
        for (allocator, mode, size), value in zip(cells, pool.map(one, cells), strict=True):
            table.setdefault(allocator.name, {})[mode, size] = value
    return table


def table(
    allocators: Sequence[Allocator], counts: Mapping[str, Mapping[tuple[str, int], float | str]]
) -> Table:
    """Returns the counts as a table, with nearmalloc's limits; a count above its limit is marked.
    """
    names = [one for one in allocators if one.name in counts]
    made = Table("mode", "size", "limit", title="Instructions per malloc and free")
    for one in names:
        made.add_column(one.label, justify="right")
    for (mode, size), limit in LIMITS.items():
        row = (_shown(counts[one.name].get((mode, size), "-"), one, limit) for one in names)
        made.add_row(mode, str(size), str(limit), *row)
    return made


def _shown(value: float | str, allocator: Allocator, limit: int) -> str:
    if isinstance(value, str):
        return value
    missed = allocator.name == "nearmalloc" and round(value, 1) > limit
    return f"{value:.1f}" + (" [red]above[/]" if missed else "")


def _per_pair(
    mode: str, size: int, library: Path | None, environment: Mapping[str, str], functions: str
) -> float:
    short, long = (
        _run([mode, size, rounds, functions], library, environment) for rounds in _ROUNDS[mode]
    )
    rounds = _ROUNDS[mode][1] - _ROUNDS[mode][0]
    return (long - short) / (rounds * (_BATCH if mode == "batch" else 1))


def _run(words: Sequence[object], library: Path | None, environment: Mapping[str, str]) -> int:
    """Returns the number of instructions of one run."""
    program: list[str | Path] = [places.bench_dir() / "instructions", *map(str, words)]
    found = callgrind.count(program, library, environment, options=["--toggle-collect=main"])
    if found.instructions is None:
        raise CountError(found.failure)
    return found.instructions


def instructions(
    allocators: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Which (default {', '.join(peers.CORE)}).")
    ] = "",
) -> None:
    """Counts the instructions of a malloc with its free, exactly."""
    names = chosen.split(allocators) or peers.CORE
    if problem := chosen.problem(names) or chosen.missing_library(names):
        raise typer.BadParameter(problem)
    found = chosen.find(names)
    out = Console()
    (out if out.is_terminal else Console(width=_WIDTH)).print(table(found, count(found)))
