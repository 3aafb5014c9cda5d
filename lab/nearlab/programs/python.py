"""The Python interpreter: threads build and walk dictionaries and JSON (lab/programs/documents.py).

By default Python serves objects up to 512 bytes from its own pools and asks malloc for the larger
ones: 2 % of the time. With PYTHONMALLOC=malloc all of them come from malloc: 38 % of the time.
Invariant: hashes are not randomized, so every run does the same work.
"""

import sys
from pathlib import Path

from nearlab.programs.base import SOURCES, Command, CommandProgram


class Python(CommandProgram):
    """Python with one of its two ways to allocate."""

    def __init__(self, name: str, title: str, allocator: str):
        self.name = name
        self.title = title
        self.version = (sys.executable, "--version")
        self._allocator = allocator
        self._documents = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._documents = 300 if quick else 900

    def command(self) -> Command:
        interpreter = Path(sys.executable).resolve()
        return Command(
            [interpreter, "-s", SOURCES / "documents.py", "4", str(self._documents), "3"],
            env={
                "PYTHONMALLOC": self._allocator,
                "PYTHONHASHSEED": "0",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
