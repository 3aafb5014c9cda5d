"""The rows of the baseline: which bench program, with which arguments, and what is read from it.

Invariant: all allocators do the same work in a row, shown by one checksum; a row's numbers are
from a run whose malloc was proved twice, by the launcher's link map and by the program itself.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import places, proof
from .cases import Case
from .measure import Sample


@dataclass(frozen=True, slots=True)
class Row:
    """A bench program with arguments; `quick` replaces them by smaller ones."""

    name: str
    argv: tuple[str, ...]
    quick: tuple[str, ...]
    threads: int = 1
    repeats: int = 1  # runs a round, where one is short and varies with the address layout

    def case(self, quick: bool) -> Case:
        program, *arguments = self.argv
        argv = [places.bench_dir() / program, *arguments, *(self.quick if quick else ())]
        return Case(self.name, argv, metrics=reader(), timeout=180)


def _row(name: str, command: str, quick: str, threads: int = 1, repeats: int = 1) -> Row:
    return Row(name, tuple(command.split()), tuple(quick.split()), threads, repeats)


# Time and memory are compared over these.
SPEED = (
    _row("threadtest 64", "threadtest --size 64", "--rounds 300", 2),
    _row("threadtest 256", "threadtest --size 256 --rounds 800", "--rounds 100", 2),
    _row("larson 2", "larson --threads 2", "--generations 600", 2),
    _row("larson 8", "larson --threads 8", "--generations 600", 8),
    _row("producer-consumer", "producer_consumer", "--blocks 2000000", 2),
    _row("churn", "churn", "--operations 1000000", 2),
    _row("shbench-like", "shbench_like", "--operations 2000000", 2),
    _row("large", "large", "--operations 150"),
    _row("realloc growth", "realloc_growth", "--rounds 8"),
    _row("thread churn", "thread_churn", "--threads 2500", 2),
    _row("start-up", "start_up", "--times 60", repeats=3),
)
# What stays resident: their seconds mean nothing, they sleep.
STEADY = (
    _row("fragmentation stretches", "fragmentation --pattern stretches", ""),
    _row("fragmentation random", "fragmentation --pattern random", ""),
    _row("idle threads", "idle_threads", "", 200),
    _row("idle", "idle", "", repeats=10),
)
ROWS = {row.name: row for row in (*SPEED, *STEADY)}


def select(names: Sequence[str]) -> list[Row]:
    """The rows whose name starts with one of `names` (dashes and blanks alike); all when empty."""

    def plain(name: str) -> str:
        return name.lower().replace("-", " ").replace("_", " ")

    chosen = []
    for name in names:
        found = [row for row in ROWS.values() if plain(row.name).startswith(plain(name))]
        if not found:
            raise KeyError(f"unknown row {name}; there are: {', '.join(ROWS)}")
        chosen += found
    return list(dict.fromkeys(chosen)) or list(ROWS.values())


def _memory_kib(sample: Sample, result: dict) -> float:
    """Peak RSS and page tables; of `idle`, what it had before it printed."""
    if "rss_kib" in result:
        return result["rss_kib"] + result["vm_pte_kib"]
    return sample.peak_total_kib


def reader() -> Callable[[Sample], dict[str, float]]:
    """Reads the result line of a bench program; all runs it reads must have done the same work."""
    checksums: set[str] = set()

    def read(sample: Sample) -> dict[str, float]:
        result = json.loads(sample.stdout.strip().splitlines()[-1])
        claimed = proof.allocator_name(result["malloc_from"])
        if claimed != sample.served_by:
            raise ValueError(f"the program says {claimed}, its link map {sample.served_by}")
        checksums.add(result.get("checksum", ""))
        if len(checksums) > 1:
            raise ValueError(f"the checksums of the runs differ: {sorted(checksums)}")
        numbers = {key: float(v) for key, v in result.items() if isinstance(v, (int, float))}
        measured = {
            "memory_kib": _memory_kib(sample, result),
            "mean_rss_kib": sample.mean_rss_kib,
            "cpu_s": sample.cpu_s,
        }
        return {"seconds": sample.wall_s} | numbers | measured

    return read
