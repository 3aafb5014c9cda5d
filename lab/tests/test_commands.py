"""The commands of README.md and lab/README.md work as written, scaled down."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from nearlab import places

SCALED = ["--rounds", "1", "--allocators", "glibc,nearmalloc"]


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    """Runs `./near lab ...` on its own results; returns its output."""
    results = tmp_path_factory.mktemp("results")

    def run(*words: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [places.ROOT / "near", "lab", *words],
            env=os.environ | {"NEAR_LAB_RESULTS": str(results)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def two_results(near):
    for _ in range(2):
        near("run", "quick", *SCALED, "--only", "linux_scalability")
    return near


def test_everything_is_listed(near):
    listed = near("list")
    for word in ("quick", "paper-scalloc", "larson", "program:redis", "mimalloc", "scalloc"):
        assert word in listed


def test_a_plan_with_targets_says_which_are_reached(near):
    words = ("--only", "start-up", "--rounds", "1", "--allocators", "glibc,nearmalloc")
    out = near("run", "baseline", *words)
    assert "start-up: at most 1.15x glibc" in out and "not measured" in out


def test_a_plan_is_run_and_reported(two_results, tmp_path):
    assert "index.html" in two_results("report", "-o", tmp_path)
    assert (tmp_path / "index.html").stat().st_size > 100_000
    assert list(tmp_path.rglob("*.png")) and list(tmp_path.rglob("*.csv"))


def test_one_figure_is_drawn(two_results, tmp_path):
    figure = tmp_path / "figure.png"
    two_results("report", "--figure", "time-against-memory", "-o", figure)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_two_results_are_compared(two_results):
    said = two_results("compare", "quick~1", "quick", "--allocators", "nearmalloc")
    assert "unclear" in said


def test_a_workload_is_run_with_a_library_of_ones_own(near):
    mine = f"glibc,mine={places.nearmalloc_library()}"
    assert "mine" in near("run", "larson", "--allocators", mine, "--rounds", "1")


ABLATIONS = {
    "paper-scalloc": ("ablation: LABs t=1", "scalloc+lab:clab"),
    "paper-numalloc": ("ablation: threadtest t=1", "numalloc+batch:bag"),
    "paper-a2alloc": ("ablation: larson t=1", "a2alloc+free:walk"),
    "paper-nalloc": ("ablation: one producer t=1", "nalloc+steal:off"),
    "claims": ("nalloc: ablation: private pools t=2", "nalloc+steal:off"),
    "paper-kim-ch4": ("ablation: fill and drain", "super0+fill:half"),
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_is_run_and_reported(near, tmp_path, name):
    cell, switched = ABLATIONS[name]
    design = switched.partition("+")[0]
    chosen = f"glibc,{design},{switched}"
    said = near("run", name, "--only", cell, "--rounds", "1", "--allocators", chosen)
    path = places.ROOT / said.rpartition("result: ")[2].strip()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    runs = [line for line in lines if line["kind"] == "run"]
    assert {run["allocator"] for run in runs} == {design, switched}  # glibc has no switch
    for run in runs:
        assert run["failure"] is None
        assert any(key.startswith("design_") for key in run["result"])
    near("report", name, "-o", tmp_path)


def test_an_unknown_plan_is_an_error_of_one_line(near):
    near("run", "nonsense", status=2)
    near("report", "nonsense", status=2)
    near("compare", "nonsense", "quick", status=2)


def test_the_plan_of_readme_runs(near):
    near("run", "readme", *SCALED, "--only", "acdc")
