"""Runs the commands of a release. Each step has a name and a log."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

# The Debian packages of the programs that a release runs; gdb and pkg-config run in its tests.
BUILD_TOOLS = {"git": "git", "cmake": "cmake", "ninja": "ninja-build", "cc": "gcc", "c++": "g++",
               "objcopy": "binutils", "tar": "tar", "xz": "xz-utils"}
TEST_TOOLS = {"pkg-config": "pkg-config", "gdb": "gdb", "sha256sum": "coreutils"}


class StepFailed(Exception):
    def __init__(self, name: str, log: Path, why: str) -> None:
        super().__init__(f"step {name} failed: {why}; log: {log}")


class NotReady(Exception):
    """The release cannot start."""


def require(tools: Mapping[str, str]) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        packages = " ".join(sorted({tools[tool] for tool in missing}))
        raise NotReady(f"{', '.join(missing)} not found; Debian packages: {packages}")


class Step:
    """One named step: its commands append to one log."""

    def __init__(self, logs: Path, name: str) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self.log.write_bytes(b"")
        print(f"{name} ...", flush=True)

    def run(self, *command: str | Path, folder: Path | None = None,
            variables: Mapping[str, str] | None = None, text: str | None = None) -> str:
        """Runs the command, logs it and returns its standard output."""
        parts = [str(part) for part in command]
        done = subprocess.run(parts, cwd=folder, env=os.environ | (variables or {}), input=text,
                              capture_output=True, encoding="utf-8", errors="replace", check=False)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(parts)}\n{done.stdout}{done.stderr}")
        if done.returncode != 0:
            self.fail(f"{Path(parts[0]).name} ended with status {done.returncode}")
        return done.stdout

    def expect(self, seen: object, expected: object, what: str) -> None:
        if seen != expected:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(f"{what}: expected {expected!r}, saw {seen!r}\n")
            self.fail(f"{what} is not as expected")

    def fail(self, why: str) -> None:
        raise StepFailed(self.name, self.log, why)
