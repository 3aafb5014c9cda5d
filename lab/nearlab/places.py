"""Where things are: the repository, the release build, results. The one file that knows."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"
RESULTS = ROOT / "build" / "lab"


def bench_dir() -> Path:
    """Where the compiled bench programs are. NEAR_BENCH_DIR names those of another build."""
    return Path(os.environ.get("NEAR_BENCH_DIR", RELEASE / "lab" / "bench"))


def nearmalloc_library() -> Path:
    """The library that is measured. NEAR_LIBRARY names another build of it."""
    return Path(os.environ.get("NEAR_LIBRARY", RELEASE / "libnearmalloc.so"))


def results_dir() -> Path:
    RESULTS.mkdir(parents=True, exist_ok=True)
    return RESULTS
