#!/usr/bin/env python3
"""A plan of the NUMA machine: `plan.py PLAN`. Each run must pass, each comparison must hold, and
the figure must be there; an allocator that is not on this machine is skipped."""

import sys

from nearvm import comparisons, machine, plan_results, plans, runs
from nearvm.application import app

SKIPPED = 77


def main(name: str) -> int:
    try:
        machine.find()
    except machine.MachineError as error:
        print(f"skipped: {error}")
        return SKIPPED
    wanted = plans.load(name)
    folder = plan_results.folder_of(wanted)
    figure = folder / "figure.svg"
    figure.unlink(missing_ok=True)
    if app(["plan", name], standalone_mode=False) not in (0, 1):
        return 1
    verdicts = plan_results.newest(folder).verdicts
    outcomes = [verdict["outcome"] for verdict in verdicts]
    compared = [each.outcome for each in comparisons.judged(wanted, verdicts)]
    print(f"skipped: {outcomes.count(runs.MISSING)}")
    print(f"cases: {outcomes.count(runs.PASS) + compared.count('holds')}")
    fine = "holds" in compared and runs.FAIL not in outcomes and "falls short" not in compared
    return 0 if fine and figure.is_file() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
