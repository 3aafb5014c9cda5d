#!/usr/bin/env python3
"""Cases of the NUMA machine: `machine.py TOPOLOGY CASE...`, each must have the verdict `pass`."""

import json
import sys

from nearlab.vm import machine, runs

SKIPPED = 77


def main(where: str, what: list[str]) -> int:
    try:
        guests = machine.find()
    except machine.MachineError as error:
        print(f"skipped: {error}")
        return SKIPPED
    planned = runs.plan(where, what)
    verdicts = [verdict for one in planned for verdict in runs.execute(guests, one)]
    for verdict in verdicts:
        print(json.dumps(verdict))
    outcomes = [verdict["outcome"] for verdict in verdicts]
    print(f"skipped: {outcomes.count(runs.MISSING)}")
    print(f"cases: {outcomes.count(runs.PASS)}")
    return 0 if runs.PASS in outcomes and runs.FAIL not in outcomes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
