"""Paths of the repository, of the build for simulated processors, and of results."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MACHINES = ROOT / "manycore" / "machines"
PLANS = ROOT / "manycore" / "plans"
GOALS = ROOT / "manycore" / "goals.toml"
CALIBRATE = ROOT / "manycore" / "calibrate" / "calibrate.cc"
PEERS = ROOT / "manycore" / "peers"
WORKLOADS = ROOT / "manycore" / "workloads.toml"
RESULTS = ROOT / "build" / "manycore-results"
HERE = RESULTS / "here.toml"
VALIDATION = RESULTS / "validation.csv"


def build() -> Path:
    """The instrumented build. NEAR_MANYCORE_BUILD names another one."""
    return Path(os.environ.get("NEAR_MANYCORE_BUILD", ROOT / "build" / "manycore"))


def engine() -> Path:
    return build() / "manycore" / "libnear_manycore.so"


def workload(name: str) -> Path:
    return build() / "lab" / "workloads" / name


def subjects() -> Path:
    """The libraries that are made of a user's sources."""
    return build() / "subjects"
