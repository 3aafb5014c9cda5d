"""The wheel: installed without this repository, it measures a library and a program of one's own.

The commands are those of README.md; the wheel takes the programs that are built. The wheel of the
tools is installed beside it, and the other dependencies are those of these tests.
"""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from nearlab import places

PLAN = """
name = "mine"
rounds = 1
warm_up = 0
allocators = ["all"]
[[workload]]
program = "threadtest"
options = { rounds = 3 }
[[program]]
name = "sort"
argv = ["sh", "-c", "seq 20000 | sort -rn"]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with a virtual environment in which both wheels are; other dependencies are ours."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = f"cmake.define.NEAR_LAB_BUILT={places.lab_build().resolve()}"
    of_lab = ("-C", built, "-C", f"build-dir={folder / 'build'}")
    options = ["--quiet", "--no-build-isolation", "--no-deps", "-w", folder]
    for source, more in (("tools", ()), ("lab", of_lab)):
        made = subprocess.run(
            [*pip, "wheel", *options, *more, places.ROOT / source],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr[-3000:]
    (wheel,) = folder.glob("nearlab-*.whl")
    assert wheel.stat().st_size < 25 << 20
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "venv" / "bin" / "python3"
    (tools,) = folder.glob("nearmalloc_tools-*.whl")
    install = ["install", "--quiet", "--no-deps", "--no-index", tools, wheel]
    subprocess.run([*pip, "--python", python, *install], check=True)
    return folder


def nearlab(folder: Path, *words: str, status: int = 0) -> str:
    """Runs the installed command, in that folder, as someone without this repository."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEAR", "PYTHON"))}
    command = [folder / "venv" / "bin" / "nearlab", *words]
    done = subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_workload_and_a_program_are_run_under_a_library_of_ones_own_and_reported(installed):
    mine = installed / "libmine.so"
    mine.write_bytes(places.nearmalloc_library().read_bytes())
    (installed / "mine.toml").write_text(PLAN)
    said = nearlab(installed, "run", "mine.toml", "--allocators", f"glibc,mine={mine}")
    assert "mine" in said and "failed" not in said
    (file,) = (installed / "nearlab-results" / "results" / "mine").glob("*.jsonl")
    lines = map(json.loads, file.read_text().splitlines())
    ran = {(line["cell"], line["allocator"]) for line in lines if line["kind"] == "run"}
    assert ran == {(cell, name) for cell in ("threadtest", "sort") for name in ("glibc", "mine")}
    page = Path(nearlab(installed, "report").strip().splitlines()[-1])
    assert page.is_relative_to(installed) and "mine" in page.read_text()


def test_the_list_has_no_nearmalloc_and_every_plan_is_right(installed):
    listed = nearlab(installed, "list")
    assert "threadtest" in listed and "mimalloc-bench" in listed and "scalloc" not in listed
    assert "nearmalloc" not in listed
    usage = nearlab(installed, "--help")
    assert "compare-allocators" in usage and "demo" not in usage and "tables" not in usage
    script = (
        "from nearlab.plan import plan; from nearlab import places\n"
        "for path in places.plan_files(): assert 'nearmalloc' not in plan.load(path).allocators"
    )
    python = installed / "venv" / "bin" / "python3"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEAR", "PYTHON"))}
    subprocess.run([python, "-c", script], check=True, env=kept, cwd=installed)


def test_a_wrong_request_names_the_command(installed):
    said = nearlab(installed, "run", "quick", "--allocators", "mine=/none.so", status=2)
    assert said.startswith("nearlab: --allocators: ")
