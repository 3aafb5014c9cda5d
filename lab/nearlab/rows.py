"""The rows of the baseline: which workload, with which arguments, and what is read from it.

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
    """A workload, or `idle`, with arguments; `quick` replaces them by smaller ones."""

    name: str
    argv: tuple[str, ...]
    quick: tuple[str, ...]
    threads: int = 1
    repeats: int = 1  # runs a round, where one is short and varies with the address layout

    def case(self, quick: bool) -> Case:
        program, *arguments = self.argv
        folder = places.bench_dir() if program == "idle" else places.workload_dir()
        argv = [folder / program, *arguments, *(self.quick if quick else ())]
        return Case(self.name, argv, metrics=reader(), timeout=180)


def _row(name: str, command: str, quick: str, threads: int = 1, repeats: int = 1) -> Row:
    return Row(name, tuple(command.split()), tuple(quick.split()), threads, repeats)


# Time and memory are compared over these. Every option that decides the work is given here: the
# workloads' own defaults are those of the papers.
_THREADTEST = "threadtest --threads 2 --objects 50000"
_LARSON = "larson --blocks 1000 --operations 10000 --generations 2400 --low 8 --high 1000"
_PAIR = "producer_consumer --blocks 10000000 --capacity 4096 --low 16 --high 512"
_CHURN = "churn --threads 2 --blocks 20000 --operations 5000000 --low 16 --high 4096"
_SHBENCH = "shbench_like --kind lifetimes --threads 2 --wheel 8192 --low 1 --high 1000"
_LARGE = "large_churn --held 8 --operations 1000 --low 1 --high 32"
_SHORT = "thread_churn --threads 2 --generations 10000 --blocks 200 --left 20 --low 16 --high 1024"
_HEAP = "fragmentation --megabytes 80 --stretches 10 --low 16 --high 1024 --sleep 2000"
SPEED = (
    _row("threadtest 64", f"{_THREADTEST} --size 64 --rounds 1500", "--rounds 300", 2),
    _row("threadtest 256", f"{_THREADTEST} --size 256 --rounds 800", "--rounds 100", 2),
    _row("larson 2", f"{_LARSON} --threads 2", "--generations 600", 2),
    _row("larson 8", f"{_LARSON} --threads 8", "--generations 600", 8),
    _row("producer-consumer", _PAIR, "--blocks 2000000", 2),
    _row("churn", _CHURN, "--operations 1000000", 2),
    _row("shbench-like", f"{_SHBENCH} --operations 10000000", "--operations 2000000", 2),
    _row("large", _LARGE, "--operations 150"),
    _row("realloc growth", "realloc_growth --rounds 40 --limit 32", "--rounds 8"),
    _row("thread churn", _SHORT, "--generations 2500", 2),
    _row("start-up", "start_up --times 200", "--times 60", repeats=3),
)
# What stays resident: their seconds mean nothing, they sleep.
_IDLE_THREADS = "idle_threads --threads 200 --blocks 4 --largest 32768 --sleep 2000"
STEADY = (
    _row("fragmentation stretches", f"{_HEAP} --pattern stretches", ""),
    _row("fragmentation random", f"{_HEAP} --pattern random", ""),
    _row("idle threads", _IDLE_THREADS, "", 200),
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
    """Reads the result line of a workload; all runs it reads must have done the same work."""
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
