"""Prints the problem in SMT-LIB that z3 solves: queens, a pigeonhole, the factors of a number.

Invariant: the problem depends on the arguments alone: the largest board, the holes, the product.
The lab runs it once.
"""

import sys
from collections.abc import Iterator


def queens(size: int) -> Iterator[str]:
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


def pigeons(holes: int) -> Iterator[str]:
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


def factors(product: int) -> Iterator[str]:
    """The factors of a number as bit vectors; this has a solution, found by bitwise multiplying."""
    width = product.bit_length() + 1
    yield "(reset)(set-logic QF_BV)"
    for factor in "xy":
        yield f"(declare-const {factor} (_ BitVec {width}))"
        yield f"(assert (bvult (_ bv1 {width}) {factor}))"
        yield f"(assert (bvult {factor} (_ bv{1 << (width // 2 + 1)} {width})))"
    yield f"(assert (= (bvmul x y) (_ bv{product} {width})))"
    yield "(check-sat)"


def main(largest: int, holes: int, product: int) -> None:
    # Boards of four sizes, up to the largest; each step is a sixth of it, at least 2.
    step = max(2, largest // 6)
    for size in range(largest - 3 * step, largest + 1, step):
        print(*queens(size), sep="\n")
    print(*pigeons(holes), *factors(product), sep="\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
