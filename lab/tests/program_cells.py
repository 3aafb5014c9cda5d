"""The cell of a real program, for tests that run one without a plan."""

from nearlab.plan.cells import Cell
from nearlab.programs.base import Program


def cell_of(program: Program) -> Cell:
    return Cell(
        name=program.name,
        workload=program.name,
        program=f"program:{program.name}",
        real_program=program.name,
        threads=None,
        x={},
        group="",
        argv=(),
        rounds=1,
        timeout_s=60,
        limit_mib=None,
    )
