"""`./near manycore validate`: how well the simulated machine predicts this one. Each workload runs
under each allocator with one and two threads, on two real processors and on two simulated ones.

What is compared is an allocator's time in a cell, relative to the geometric mean of all allocators
in that cell: absolute times are not what the simulation is for. A cell is a workload with a number
of threads.
Invariant: the real runs of a cell are interleaved, and their median counts.
"""

import csv
import json
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from scipy.stats import spearmanr  # type: ignore[import-untyped]

from nearlab import places as lab
from nearmanycore import peers, simulate, subjects, workloads
from nearmanycore.machines import Named
from nearmanycore.simulate import Request, RunError
from nearmanycore.workloads import Workload

ALLOCATORS = ("near", "mimalloc3", "jemalloc", "snmalloc", "rpmalloc")
MOST_OFF = 1.5
LEAST_CORRELATION = 0.8
_ROUNDS = 9
_THREADS = (1, 2)
Cell = tuple[str, int]  # a workload and a number of threads


@dataclass(frozen=True, slots=True)
class Pair:
    """An allocator's time in a cell, in seconds."""

    workload: str
    threads: int
    allocator: str
    real: float
    simulated: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """The same, relative to the mean of the cell."""

    pair: Pair
    real: float
    simulated: float

    @property
    def off(self) -> float:
        return max(self.real / self.simulated, self.simulated / self.real)


def native(name: str) -> Path:
    """The library of an allocator that is not instrumented."""
    if name == "near":
        return lab.nearmalloc_library()
    crate = peers.get(name, instrumented=False)
    crate.build()
    library = crate.find()
    if library is None:
        raise subjects.SubjectError(f"{name}: {crate.hint()}")
    return library


def measured(keys: Workload, threads: int, scale: float) -> dict[str, float]:
    """Median seconds of each allocator on real processors."""
    libraries = {name: native(name) for name in ALLOCATORS}
    seconds: dict[str, list[float]] = {name: [] for name in ALLOCATORS}
    for turn in range(_ROUNDS):
        for name in ALLOCATORS if turn % 2 == 0 else reversed(ALLOCATORS):
            command = [str(lab.workload_dir() / keys.program), *keys.command(threads, scale, ())]
            seconds[name].append(_real_run(libraries[name], command))
    return {name: statistics.median(times) for name, times in seconds.items()}


def _real_run(library: Path, command: Sequence[str]) -> float:
    wrapped = ["env", f"LD_PRELOAD={library}", *command]
    done = subprocess.run(wrapped, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"{Path(command[0]).name} under {library.name}: status {done.returncode}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


def cell(
    name: str, threads: int, machine: Named, scale: float, said: Callable[[str], None]
) -> list[Pair]:
    """One cell, measured and simulated."""
    keys = workloads.load(name)
    real = measured(keys, threads, scale)
    pairs = []
    for subject in subjects.find(",".join(ALLOCATORS)):
        request = Request(name, keys, subject, machine, 2, threads, scale=scale)
        record = simulate.run(request)
        pairs.append(
            Pair(name, threads, subject.name, real[subject.name], record["workload"]["seconds"])
        )
    said(f"{name}, {threads} threads")
    return pairs


def compare(machine: Named, scale: float, said: Callable[[str], None]) -> list[Pair]:
    """All cells."""
    return [
        pair
        for name, keys in workloads.all_of_them().items()
        for threads in _THREADS
        if threads >= keys.least
        for pair in cell(name, threads, machine, scale, said)
    ]


def ratios(pairs: Sequence[Pair]) -> list[Ratio]:
    cells: dict[Cell, list[Pair]] = {}
    for pair in pairs:
        cells.setdefault((pair.workload, pair.threads), []).append(pair)
    made = []
    for members in cells.values():
        real = statistics.geometric_mean(pair.real for pair in members)
        simulated = statistics.geometric_mean(pair.simulated for pair in members)
        made += [Ratio(pair, pair.real / real, pair.simulated / simulated) for pair in members]
    return made


def correlation(found: Sequence[Ratio]) -> float:
    """Spearman's rank correlation of all ratios."""
    return float(spearmanr([each.real for each in found], [each.simulated for each in found])[0])


def is_validated(found: Sequence[Ratio], workload: str) -> bool:
    """Whether no ratio of the workload is off by more than MOST_OFF."""
    own = [each for each in found if each.pair.workload == workload]
    return bool(own) and all(each.off <= MOST_OFF for each in own)


def write(pairs: Sequence[Pair], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Pair)])
        writer.writerows(
            [*astuple(pair)[:3], f"{pair.real:.6g}", f"{pair.simulated:.6g}"] for pair in pairs
        )


def read(path: Path) -> list[Pair]:
    """What `write` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Pair(each["workload"], int(each["threads"]), each["allocator"], float(each["real"]),
                 float(each["simulated"]))
            for each in csv.DictReader(file)
        ]  # fmt: skip


def markdown(pairs: Sequence[Pair]) -> str:
    """A line for each cell: real and simulated time of each allocator, relative to their mean."""
    found = ratios(pairs)
    cells: dict[Cell, dict[str, Ratio]] = {}
    for each in found:
        cells.setdefault((each.pair.workload, each.pair.threads), {})[each.pair.allocator] = each
    text = [f"| workload, threads | {' | '.join(ALLOCATORS)} | most off |", "|---|" + "---|" * 6]
    for (workload, threads), own in cells.items():
        shown = " | ".join(f"{own[n].real:.2f}, {own[n].simulated:.2f}" for n in ALLOCATORS)
        most = max(each.off for each in own.values())
        text.append(f"| {workload}, {threads} | {shown} | {most:.2f} |")
    valid = [name for name in dict.fromkeys(p.workload for p in pairs) if is_validated(found, name)]
    within = sum(each.off <= MOST_OFF for each in found)
    text.append("")
    text.append(
        f"Rank correlation {correlation(found):.2f}; {within} of {len(found)} ratios are off by "
        f"at most {MOST_OFF}; workloads with all of theirs: {', '.join(valid) or 'none'}."
    )
    return "\n".join(text) + "\n"
