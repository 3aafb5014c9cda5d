"""Paths of the repository or of the installed package, of builds and results.

Invariant: only this module knows them. An installed package has no nearmalloc and no designs.
"""

import os
from pathlib import Path

_DATA = Path(__file__).resolve().parent / "data"  # programs and plans of an installed package
INSTALLED = _DATA.is_dir()
ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"
RESULTS = Path.cwd() / "nearlab-results" if INSTALLED else ROOT / "build" / "lab"
_LAB = _DATA if INSTALLED else ROOT / "lab"
_CACHE = Path.home() / ".cache" / "nearlab" if INSTALLED else ROOT / "build"


def lab_build() -> Path:
    """The folder of the lab's compiled programs. NEAR_LAB_BUILD names that of another build."""
    return Path(os.environ.get("NEAR_LAB_BUILD", _DATA if INSTALLED else RELEASE / "lab"))


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
    return _LAB / "plans"


def plan_files() -> list[Path]:
    return sorted(plans_dir().glob("*.toml"))


def plan_results() -> Path:
    """The folder of results, with a folder for each plan. NEAR_LAB_RESULTS names another one."""
    return Path(os.environ.get("NEAR_LAB_RESULTS", RESULTS / "results"))


def design_names() -> tuple[str, ...]:
    """The published designs, in the order of designs/list.txt."""
    if INSTALLED:
        return ()
    lines = (ROOT / "designs" / "list.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.split()[0] for line in lines if line and not line.startswith("#"))


def design_library(name: str) -> Path:
    """A design of a paper, built beside nearmalloc."""
    return nearmalloc_library().parent / "designs" / f"lib{name}.so"


def workload_sources() -> Path:
    """The sources of the workloads; an installed package has none."""
    return _LAB / "workloads"


def limit_library() -> Path:
    """The allocator that does no more than it must: a bound, not a peer."""
    return bench_dir() / "liblimit.so"


def count_library() -> Path:
    """The counter that is preloaded before an allocator."""
    return bench_dir() / "libcount.so"


def crates_dir() -> Path:
    """The crates that make peers into libraries."""
    return _LAB / "peers"


def program_sources() -> Path:
    """What real programs work on."""
    return _LAB / "programs"


def rust_workloads_dir() -> Path:
    """The crates that are workloads."""
    return _LAB / "reclaim"


def peers_build() -> Path:
    """The folder of what cargo builds from these crates."""
    return _CACHE / "peers"


def logs_dir() -> Path:
    return _CACHE / "logs"


def results_dir() -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    return RESULTS
