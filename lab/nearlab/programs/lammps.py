"""LAMMPS, serial: a Lennard-Jones crystal melts (lab/programs/melt.lammps).

The program is insensitive: 0.1 % of the time is spent in malloc; arrays live as long as the run.
Invariant: the rows of temperature, energy and pressure are equal to four digits; later digits
depend on how sums were vectorized.
"""

import re
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import SOURCES, Command, CommandProgram

_ROW = re.compile(r"^ +\d+ +\d+( +-?\d+\.\d+)+ *$", re.MULTILINE)


class Lammps(CommandProgram):
    name = "lammps"
    title = "melting crystal"
    needs = {"lmp": "lammps"}
    version = ("lmp", "-help")

    def __init__(self) -> None:
        self._cells = self._steps = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._cells, self._steps = (10, 100) if quick else (14, 150)

    def command(self) -> Command:
        return Command(
            [
                *("lmp", "-log", "none", "-nocite", "-in", SOURCES / "melt.lammps"),
                *("-var", "cells", str(self._cells), "-var", "steps", str(self._steps)),
            ],
            # The process runs alone, without the daemon that Open MPI would start for it.
            env={"OMP_NUM_THREADS": "1", "OMPI_MCA_ess_singleton_isolated": "1"},
        )

    def answer(self, sample: measure.Sample) -> str:
        return "\n".join(match[0] for match in _ROW.finditer(sample.stdout))
