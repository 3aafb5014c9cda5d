"""Debian packages by purpose: packages.toml says which packages each purpose needs.

Invariant: root gets missing packages installed, without their services; everybody else gets their
names and exit status 2.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache

from neardriver import apt, locks, paths, services
from neardriver.messages import Misuse, say
from neardriver.progress import Step

INSTALLED = paths.LOGS / "installed"  # touched by an installation: build trees configure again
_OLDEST_CMAKE = (3, 25)
Table = dict[str, dict[str, str]]


@cache
def table() -> Table:
    return tomllib.loads((paths.DATA / "packages.toml").read_text(encoding="utf-8"))


def is_there(probe: str) -> bool:
    """Whether the command is on the path, or a file matches the pattern."""
    if probe.startswith("/"):
        return bool(glob.glob(probe))
    return shutil.which(probe) is not None


def missing(purposes: Iterable[str], packages: Table | None = None) -> list[str]:
    known = table() if packages is None else packages
    return sorted({package for purpose in purposes for package, probe in known[purpose].items()
                   if not is_there(probe)})


def need(*purposes: str) -> None:
    """Effect: the machine has all packages of the purposes, or Misuse names the missing ones."""
    if missing(purposes):
        with locks.hold(locks.PACKAGES):
            _install(purposes)
    if "build" in purposes:
        _check_cmake()


def _install(purposes: Iterable[str]) -> None:
    lacking = missing(purposes)
    if not lacking:  # another command has just installed them
        return
    names = " ".join(lacking)
    if not apt.is_here():
        raise Misuse(f"missing, by the names of their Debian packages: {names}")
    if os.geteuid() != 0:
        raise Misuse("packages are missing: "
                     f"sudo apt-get install --no-install-recommends {names}")
    with services.denied(), Step(f"installing {names}").start():
        if not apt.run("update"):
            say("apt-get update failed, trying with the lists there are")
        installed = apt.install(lacking)
    if missing(purposes) != lacking:
        INSTALLED.touch()
    if not installed:
        print(apt.last_lines(15), file=sys.stderr)
        raise Misuse(f"apt-get could not install: {names} (see build/logs/apt.log)")
    if lacking := missing(purposes):
        raise Misuse(f"installed, yet not usable: {' '.join(lacking)}")


def want(*purposes: str) -> None:
    """Effect: root gets optional programs if possible; tests and the lab skip missing ones."""
    if os.geteuid() == 0 and missing(purposes):
        with locks.hold(locks.PACKAGES):
            try:
                _install(purposes)
            except Misuse as problem:
                say(str(problem))
                _install_singly(missing(purposes))
    _link_redis_server()


def _install_singly(names: list[str]) -> None:
    """One refused package must not prevent the others."""
    with services.denied():
        for name in names:
            if apt.is_here() and apt.install([name]):
                INSTALLED.touch()
            else:
                say(f"going on without {name}")


def _link_redis_server() -> None:
    """Debian's redis-server is redis-check-rdb under another name; its package starts a service."""
    program = shutil.which("redis-check-rdb")
    link = paths.BIN / "redis-server"
    if program and shutil.which("redis-server", path=search_path()) is None:
        paths.BIN.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(program)


def search_path() -> str:
    """PATH with the links of build/bin."""
    return os.pathsep.join((str(paths.BIN), os.environ.get("PATH", os.defpath)))


def add_links_to_path() -> None:
    """Programs that the driver starts from now on find the links of build/bin."""
    if not os.environ.get("PATH", "").startswith(f"{paths.BIN}{os.pathsep}"):
        os.environ["PATH"] = search_path()


def _check_cmake() -> None:
    said = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)\.(\d+)\S*", said.stdout)
    if not found or (int(found[1]), int(found[2])) < _OLDEST_CMAKE:
        oldest = ".".join(map(str, _OLDEST_CMAKE))
        number = found[0] if found else "unknown"
        raise Misuse(f"CMake {oldest} or newer is needed, this is {number}")


