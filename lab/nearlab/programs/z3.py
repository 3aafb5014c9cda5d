"""z3 solves our problem in SMT-LIB: queens, a pigeonhole, and the factors of a number.

2 % of the time is spent in malloc.
Invariant: the verdicts depend on the problem alone; only they are printed, as models may differ.
"""

from collections.abc import Iterator
from pathlib import Path

from nearlab.programs.base import Command, CommandProgram


class Z3(CommandProgram):
    name = "z3"
    title = "SMT problems"
    needs = {"z3": "z3"}
    version = ("z3", "--version")

    def __init__(self) -> None:
        self._problem = Path()

    def prepare(self, folder: Path, quick: bool) -> None:
        self._problem = folder / "problem.smt2"
        sizes = (8, 10, 12, 14) if quick else (12, 16, 20, 24)
        lines = [line for size in sizes for line in _queens(size)]
        lines += [*_pigeons(7 if quick else 8), *_factors(1009 * 1013 if quick else 8191 * 8209)]
        self._problem.write_text("\n".join(lines) + "\n")

    def command(self) -> Command:
        return Command(["z3", "-smt2", self._problem])


def _queens(size: int) -> Iterator[str]:
    """Queens as integers, none of which attacks another; this has a solution."""
    yield "(reset)(set-logic QF_LIA)"
    rows = [f"q{column}" for column in range(size)]
    for row in rows:
        yield f"(declare-const {row} Int)(assert (and (<= 0 {row}) (< {row} {size})))"
    yield f"(assert (distinct {' '.join(rows)}))"
    for right, one in enumerate(rows):
        for left, other in enumerate(rows[:right]):
            apart = right - left
            yield f"(assert (distinct (- {one} {other}) {apart} (- {apart})))"
    yield "(check-sat)"


def _pigeons(holes: int) -> Iterator[str]:
    """One pigeon more than holes; this has no solution, and no short proof of that."""
    yield "(reset)(set-logic QF_UF)"
    for pigeon in range(holes + 1):
        places = [f"p{pigeon}h{hole}" for hole in range(holes)]
        yield "".join(f"(declare-const {place} Bool)" for place in places)
        yield f"(assert (or {' '.join(places)}))"
    for hole in range(holes):
        for pigeon in range(holes + 1):
            for other in range(pigeon):
                yield f"(assert (not (and p{pigeon}h{hole} p{other}h{hole})))"
    yield "(check-sat)"


def _factors(product: int) -> Iterator[str]:
    """The factors of a number as bit vectors; this has a solution, found by bitwise multiplying."""
    width = product.bit_length() + 1
    yield "(reset)(set-logic QF_BV)"
    for factor in "xy":
        yield f"(declare-const {factor} (_ BitVec {width}))"
        yield f"(assert (bvult (_ bv1 {width}) {factor}))"
        yield f"(assert (bvult {factor} (_ bv{1 << (width // 2 + 1)} {width})))"
    yield f"(assert (= (bvmul x y) (_ bv{product} {width})))"
    yield "(check-sat)"
