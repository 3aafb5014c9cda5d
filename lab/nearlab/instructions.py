"""Counts the instructions of a malloc with its free, exactly, by callgrind.

For each mode and size: instructions of a long run less those of a short one, per pair, less the
same for the loop that calls empty functions, plus the 2 that those execute. So what remains is
malloc, free and the jump to each through the procedure linkage table; start-up cancels out.
The definition is checked on glibc 2.36, whose count is known (lab/tests).
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import callgrind, places
from .peers import Allocator

MODES = ("pair", "batch")
SIZES = (16, 64, 256, 1024, 32768)
_BATCH = 1000
_EMPTY_FUNCTIONS = 2
# Rounds of the short and the long run. The long one covers what an allocator does now and then.
_ROUNDS = {"pair": (5_000, 105_000), "batch": (10, 110)}


class CountError(RuntimeError):
    """There is no count; says why."""


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

    with ThreadPoolExecutor(max_workers=2) as pool:  # counts do not depend on what else runs
        for (allocator, mode, size), value in zip(cells, pool.map(one, cells), strict=True):
            table.setdefault(allocator.name, {})[mode, size] = value
    return table


def _per_pair(
    mode: str, size: int, library: Path | None, environment: Mapping[str, str], functions: str
) -> float:
    short, long = (
        _run([mode, size, rounds, functions], library, environment) for rounds in _ROUNDS[mode]
    )
    rounds = _ROUNDS[mode][1] - _ROUNDS[mode][0]
    return (long - short) / (rounds * (_BATCH if mode == "batch" else 1))


def _run(words: Sequence[object], library: Path | None, environment: Mapping[str, str]) -> int:
    """All instructions of one run."""
    program = [places.bench_dir() / "instructions", *map(str, words)]
    found = callgrind.count(program, library, environment)
    if found.instructions is None:
        raise CountError(found.failure)
    return found.instructions
