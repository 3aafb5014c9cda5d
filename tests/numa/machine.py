#!/usr/bin/env python3
"""Runs cases of the NUMA machine: `machine.py TOPOLOGY CASE...`, each must have the verdict `pass`;
with `--allocators NAME,...` under these alone.
"""

import argparse
import json
import sys

from nearvm import machine, runs

SKIPPED = 77


def main(where: str, what: list[str], allocators: str) -> int:
    try:
        guests = machine.find()
    except machine.MachineError as error:
        print(f"skipped: {error}")
        return SKIPPED
    planned = runs.plan(where, what, allocators)
    verdicts = [verdict for one in planned for verdict in runs.execute(guests, one)]
    for verdict in verdicts:
        print(json.dumps(verdict))
    outcomes = [verdict["outcome"] for verdict in verdicts]
    print(f"skipped: {outcomes.count(runs.MISSING)}")
    print(f"cases: {outcomes.count(runs.PASS)}")
    return 0 if runs.PASS in outcomes and runs.FAIL not in outcomes else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("where")
    parser.add_argument("what", nargs="+")
    parser.add_argument("--allocators", default="")
    return parser.parse_args()


if __name__ == "__main__":
    asked = arguments()
    sys.exit(main(asked.where, asked.what, asked.allocators))
