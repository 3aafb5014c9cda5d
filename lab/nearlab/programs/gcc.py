"""GCC compiles a large C++ file full of templates (programs/templates.py writes it) to assembly.

5 % of the time is spent in malloc, because GCC keeps its trees in its own memory.
Invariant: the assembly depends on the source alone. The memory figure is that of the driver and the
compiler proper together.
"""

import hashlib
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs import templates
from nearlab.programs.base import Command, CommandProgram


class Gcc(CommandProgram):
    name = "gcc"
    title = "C++ templates"
    needs = {"g++": "g++"}
    version = ("g++", "--version")

    def __init__(self) -> None:
        self._source = Path()
        self._assembly = Path()

    def prepare(self, folder: Path, quick: bool) -> None:
        self._source = folder / "templates.cc"
        self._assembly = folder / "templates.s"
        self._source.write_text(templates.make(1 if quick else 4))

    def command(self) -> Command:
        self._assembly.unlink(missing_ok=True)
        return Command(
            ["g++", "-std=c++20", "-O1", "-S", self._source, "-o", self._assembly], tree=True
        )

    def answer(self, sample: measure.Sample) -> str:
        return hashlib.sha256(self._assembly.read_bytes()).hexdigest()
