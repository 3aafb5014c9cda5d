"""Groups of Python packages in build/venv, each installed when a command first needs it.

Invariant: a marker in build/venv holds the requirements with which a group was installed; a group
is ready if the marker equals its requirements. The bootstrap (./near) makes build/venv and the
group `driver`.
"""

import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from neardriver import locks, paths
from neardriver.messages import Failure, say
from neardriver.progress import Step
from neardriver.seconds import SECONDS

_OWN: dict[str, tuple[str, ...]] = {
    "results": ("numpy", "pydantic==2.*"),  # the part of the lab that plans and judges runs
    "tests": ("pytest", "hypothesis", "promql-parser==0.12.*", "scikit-build-core"),
    "lint": ("ruff==0.17.*", "mypy==2.4.*"),
    "browser": ("selenium==4.*",),
    "peers": ("cmeel-mimalloc==3.4.*",),  # a measurement names a missing one
}
_PROJECTS = {"tools": "tools/pyproject.toml", "lab": "lab/pyproject.toml"}
NAMES = (*_PROJECTS, *_OWN)
_ATTEMPTS = 3
_EXPECTED_SECONDS = {"tools": 15.0, "results": 10.0, "lab": 40.0, "tests": 8.0, "lint": 10.0,
                     "browser": 8.0, "peers": 5.0}


def requirements(group: str) -> tuple[str, ...]:
    if group in _OWN:
        return _OWN[group]
    return tuple(each for each in _project(group)["dependencies"] if each not in _own_projects())


def _project(group: str) -> dict[str, Any]:
    text = (paths.ROOT / _PROJECTS[group]).read_text(encoding="utf-8")
    return dict(tomllib.loads(text)["project"])


def _own_projects() -> set[str]:
    """The distributions of this repository, which run from their folders."""
    return {_project(group)["name"] for group in _PROJECTS}


def _marker(group: str) -> Path:
    return paths.VENV / f"group-{group}"


def is_ready(group: str) -> bool:
    marker = _marker(group)
    return marker.exists() and marker.read_text(encoding="utf-8") == _text(group)


def _mark(group: str) -> None:
    _marker(group).write_text(_text(group), encoding="utf-8")


def _text(group: str) -> str:
    return "".join(f"{line}\n" for line in requirements(group))


def need(*names: str) -> None:
    """Effect: build/venv has the packages of these groups."""
    _add(names, _ATTEMPTS)


def want(*names: str) -> None:
    """Effect: build/venv has the packages of these groups if pip can install them; tried once."""
    for name in names:
        try:
            _add((name,), attempts=1)
        except Failure:
            say(f"going on without {' '.join(requirements(name))}")
            _mark(name)


def _add(names: tuple[str, ...], attempts: int) -> None:
    if all(is_ready(name) for name in names):
        return
    with locks.hold(locks.PACKAGES):
        lacking = [name for name in names if not is_ready(name)]
        if lacking:
            _install(lacking, attempts)


def _install(names: list[str], attempts: int) -> None:
    wanted = sorted({line for name in names for line in requirements(name)})
    log = paths.log("venv")
    expected = sum(_EXPECTED_SECONDS[name] for name in names)
    what = f"installing Python packages into build/venv ({', '.join(names)})"
    with SECONDS.download("pip"), Step(what).start(expected):
        for attempt in range(1, attempts + 1):
            if pip(paths.PYTHON, log, *wanted):
                for name in names:
                    _mark(name)
                return
            if attempt < attempts:
                say(f"pip failed (attempt {attempt} of {attempts})")
                time.sleep(attempt * 3)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-5:]), file=sys.stderr)
        raise Failure(f"pip could not install {' '.join(wanted)}: is the index reachable? "
                      "(see build/logs/venv.log)")


def pip(python: Path, log: Path, *words: str) -> bool:
    """Whether `pip install` succeeded; its output is added to the log."""
    options = ("--disable-pip-version-check", "--quiet", "--no-compile")
    command = [str(python), "-m", "pip", "install", *options, *words]
    with log.open("ab") as file:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                              check=False)
    return done.returncode == 0
