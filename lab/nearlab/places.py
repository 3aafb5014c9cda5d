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


def results_dir() -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    return RESULTS
