"""Our multi-threaded server (lab/programs/kvserver.cc): threads pass buffers to other threads.

30 % of the time is spent in malloc.
Invariant: the checksum it prints depends on its arguments alone.
"""

import subprocess
from pathlib import Path

from nearlab.programs.base import (
    SOURCES,
    Command,
    CommandProgram,
    PrepareError,
    compiler,
    last_line,
)


class KvServer(CommandProgram):
    name = "kvserver"
    title = "8-thread server"
    needs = {"g++": "g++"}
    version = ("g++", "--version")

    def __init__(self) -> None:
        self._program = Path()
        self._requests = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._requests = 120_000 if quick else 450_000
        self._program = folder / "kvserver"
        build: list[str | Path] = [
            compiler(),
            "-std=c++20",
            "-O2",
            "-pthread",
            SOURCES / "kvserver.cc",
            "-o",
            self._program,
        ]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PrepareError(f"kvserver.cc cannot be compiled{last_line(done.stderr)}")

    def command(self) -> Command:
        return Command([self._program, "4", "4", str(self._requests)])
