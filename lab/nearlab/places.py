"""Where things are: the repository, the release build, results. The one file that knows."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"
RESULTS = ROOT / "build" / "lab"


def lab_build() -> Path:
    """Where the lab's compiled programs are. NEAR_LAB_BUILD names those of another build."""
    return Path(os.environ.get("NEAR_LAB_BUILD", RELEASE / "lab"))


def bench_dir() -> Path:
    """The tools that measure, and the small programs they are tested with."""
    return lab_build() / "bench"


def workload_dir() -> Path:
    """The workloads."""
    return lab_build() / "workloads"


def nearmalloc_library() -> Path:
    """The library that is measured. NEAR_LIBRARY names another build of it."""
    return Path(os.environ.get("NEAR_LIBRARY", RELEASE / "libnearmalloc.so"))


def plans_dir() -> Path:
    """The plans that come with the lab."""
    return ROOT / "lab" / "plans"


def plan_results() -> Path:
    """Where results of plans go, a folder each. NEAR_LAB_RESULTS names another place."""
    return Path(os.environ.get("NEAR_LAB_RESULTS", RESULTS / "results"))


def design_names() -> tuple[str, ...]:
    """The published designs, in the order of designs/list.txt."""
    lines = (ROOT / "designs" / "list.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.split()[0] for line in lines if line and not line.startswith("#"))


def design_library(name: str) -> Path:
    """A design of a paper, built beside nearmalloc."""
    return nearmalloc_library().parent / "designs" / f"lib{name}.so"


def limit_library() -> Path:
    """The allocator that does no more than it must: a bound, not a peer."""
    return bench_dir() / "liblimit.so"


def count_library() -> Path:
    """The counter that is preloaded before an allocator."""
    return bench_dir() / "libcount.so"


def vm_topologies() -> Path:
    """The machines of ./near vm. What they run is beside them."""
    return ROOT / "lab" / "vm" / "topologies"


def vm_cases() -> Path:
    return ROOT / "lab" / "vm" / "cases"


def vm_plans() -> Path:
    return ROOT / "lab" / "vm" / "plans"


def vm_guest() -> Path:
    """The scripts that become part of a guest."""
    return ROOT / "lab" / "vm" / "guest"


def vm_program(name: str) -> Path:
    """A program that is written for the guest, or the library that counts there."""
    return lab_build() / "vm" / name


def vm_files() -> Path:
    """The guest's kernel and shell, and the verdicts. NEAR_VM names another place."""
    return Path(os.environ.get("NEAR_VM", ROOT / "build" / "vm"))


def crates_dir() -> Path:
    """The crates that make peers into libraries."""
    return ROOT / "lab" / "peers"


def rust_workloads_dir() -> Path:
    """The crates that are workloads."""
    return ROOT / "lab" / "reclaim"


def peers_build() -> Path:
    """What is built of them."""
    return ROOT / "build" / "peers"


def logs_dir() -> Path:
    return ROOT / "build" / "logs"


def results_dir() -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    return RESULTS
