"""The lab's interface to a real program: its needs, how it is run once, the result of a run.

Invariant: a program's answer depends on its inputs alone, so it is equal under every allocator.
Thread-safety: one thread; a program writes only below the folder given to `prepare`.
"""

import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearlab import places
from nearlab.measure import measure
from nearlab.peers import Allocator

SOURCES = places.program_sources()
TIMEOUT_S = 180.0
_SERVERS = ("/usr/local/sbin", "/usr/sbin")  # folders that are not on a Debian user's path


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its measurements and its answer; `complaint` says why it does not count."""

    sample: measure.Sample | None
    wall_s: float
    answer: str
    complaint: str | None = None


class Listed:
    """What is known of a real program without running it."""

    name: str
    title: str  # a short description of its work
    needs: Mapping[str, str] = {}  # command -> Debian package
    version: Sequence[str]  # a command that prints the version

    def version_line(self) -> str:
        """The first line that the version command prints; empty if it cannot run."""
        command, *options = self.version
        try:
            done = subprocess.run(
                [which(command) or command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=10,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return (done.stdout.strip().splitlines() or [""])[0]

    def missing(self) -> dict[str, str]:
        """The needed commands that are not installed, with their packages."""
        return {command: package for command, package in self.needs.items() if not which(command)}


class Described(Listed):
    """A program that is a table of a file: `needs` and `version` are keys of it."""

    def __init__(self, table: Mapping[str, Any]):
        self.name = table["name"]
        self.title = table.get("title") or self.name
        self.needs = table.get("needs") or {}
        words = table.get("version") or ["true"]
        self.version = [word.replace("{python}", python()) for word in words]


class Program(Listed, ABC):
    """A real program with a fixed workload. Subclasses say how to run it once."""

    @abstractmethod
    def prepare(self, folder: Path, quick: bool) -> None:
        """Writes inputs into `folder`. Raises PrepareError when they cannot be made."""

    @abstractmethod
    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        """Runs the workload once under `allocator`, with `env` added to the environment."""


class PrepareError(RuntimeError):
    """A program's inputs cannot be made; the driver reports the program as failed."""


def which(command: str) -> str | None:
    """The path of a command, servers included; None if it is not installed."""
    return shutil.which(command) or shutil.which(command, path=os.pathsep.join(_SERVERS))


def last_line(text: str) -> str:
    """`: LINE` with the last line of a program's stderr, shortened; empty if stderr is empty."""
    lines = text.strip().splitlines()
    return f": {lines[-1][:100]}" if lines else ""


def compiler() -> str:
    """The C++ compiler, as elsewhere in the build: CXX, else g++."""
    return os.environ.get("CXX", "g++")


def python() -> str:
    """The interpreter itself, without the environment that it runs in."""
    return str(Path(sys.executable).resolve())
