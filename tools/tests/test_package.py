"""The wheel: small, of the library's version, and usable without this repository."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from nearmalloc_tools import __version__
from test_top import program

TOOLS = Path(__file__).parents[1]
LARGEST = 60 << 20
HEAVY = {"numpy", "scipy", "pandas", "matplotlib"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A virtual environment in which the wheel is; its dependencies are those of these tests."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", folder, TOOLS]
    made = subprocess.run([*pip, *build], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    (wheel,) = folder.glob("*.whl")
    assert wheel.name == f"nearmalloc_tools-{__version__}-py3-none-any.whl"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    install = ["install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([*pip, "--python", folder / "venv/bin/python3", *install], check=True)
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv"


def nearmalloc(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed command as someone without this repository."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEAR", "PYTHON"))}
    command = [installed / "bin" / "nearmalloc", *words]
    return subprocess.run(
        command, cwd=installed, env=kept, capture_output=True, text=True, check=False
    )


def test_the_wheel_has_the_version_of_the_library(installed):
    header = (TOOLS.parent / "include/nearmalloc/nearmalloc.h").read_text(encoding="utf-8")
    parts = re.findall(r"^#define NEAR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
    assert nearmalloc(installed, "--version").stdout == f"nearmalloc {'.'.join(parts)}\n"


def test_the_installed_command_reads_a_process(installed):
    with program() as child:
        result = nearmalloc(installed, "top", str(child.pid), "--once")
    assert result.returncode == 0, result.stderr
    assert f"({child.pid}): " in result.stdout and "Memory by node" in result.stdout


def test_the_installed_command_writes_a_page(installed):
    """It has the files that a page is made of."""
    library = f"NEAR_LIBRARY={os.environ['NEAR_LIBRARY']}"
    command = ["env", "-u", "PYTHONPATH", library, installed / "bin/nearmalloc", "profile"]
    script = [sys.executable, "-c", "print(len([bytes(9000) for _ in range(2000)]))"]
    result = subprocess.run(
        [*command, "--no-open", *script], cwd=installed, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "2000\n"), result.stderr
    page = (installed / "near-profile.html").read_text(encoding="utf-8")
    assert "<style>" in page and "function describe" in page


def closure(names: list[str]) -> dict[str, metadata.Distribution]:
    """Packages and all packages that they need, without those of extras."""
    found: dict[str, metadata.Distribution] = {}
    while names:
        name = re.split(r"[ ;<>=!~\[(]", names.pop())[0]
        if name.lower() not in found:
            found[name.lower()] = metadata.distribution(name)
            needed = found[name.lower()].requires or []
            names += [each for each in needed if ";" not in each]
    return found


def test_the_installed_packages_take_less_than_60_mb():
    """The files of the packages here, as pip lists them, with their compiled Python."""
    project = tomllib.loads((TOOLS / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = closure(list(project["dependencies"]))
    assert len(found) > len(project["dependencies"]) and not found.keys() & HEAVY
    paths = [Path(str(each.locate_file(file))) for each in found.values() for file in each.files]
    paths += [path for path in (TOOLS / "nearmalloc_tools").rglob("*") if path.suffix != ".pyc"]
    taken = sum(path.stat().st_blocks * 512 for path in paths if path.exists())
    print(f"{len(found)} packages take {taken / 2**20:.1f} MiB")
    assert 5 << 20 < taken < LARGEST
