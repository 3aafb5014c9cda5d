#!/usr/bin/env python3
"""The fuzzers can fail: each fault that they plant on demand is found within what CI runs.

    notice_faults.py targets FOLDER LENGTH RUNS   the libFuzzer targets of FOLDER, by run.py
    notice_faults.py driver PROGRAM SEEDS [--no-forks]

Invariant: it is the fault that is found: the program ends by a demand that did not hold. That they
pass without a fault is what the other tests of this folder show.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET_FAULTS = {
    "api": ("overlap", "short", "dirty", "realloc", "align", "leak", "errno", "node"),
    "options": ("silent", "range", "word"),
    "topology": ("partial", "order", "cpu", "again"),
    "trace": ("size", "unknown"),
}
DRIVER_FAULTS = ("overlap", "dirty", "realloc", "leak")


def of_targets(folder: Path, length: str, runs: str) -> list[tuple[str, list[str], dict[str, str]]]:
    found = []
    for target, faults in TARGET_FAULTS.items():
        command = [sys.executable, "-B", str(HERE / "run.py"), str(folder / f"fuzz_{target}"),
                   "--length", length, "--runs", runs, "--seconds", "60"]
        found += [(f"{target} {fault}", command, {"NEAR_FUZZ_FAULT": fault}) for fault in faults]
    return found


def of_driver(command: list[str]) -> list[tuple[str, list[str], dict[str, str]]]:
    program, seeds, *rest = command
    return [(f"driver {fault}", [program, "--seeds", seeds, "--fault", fault, *rest], {})
            for fault in DRIVER_FAULTS]


def main() -> int:
    kind, *rest = sys.argv[1:]
    tests = of_targets(Path(rest[0]), *rest[1:]) if kind == "targets" else of_driver(rest)
    missed = 0
    for name, command, variables in tests:
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True,
                              errors="replace", check=False)
        output = done.stdout + done.stderr
        said = re.search(r"^(?:wrong|seed \d+): .*$", output, re.MULTILINE)
        print(f"{name}: {said.group() if said else 'nothing'}")
        if done.returncode != 1 or said is None:
            print(output[-2000:])
            missed += 1
    print(f"cases: {len(tests)}")
    return 1 if missed or not tests else 0


sys.exit(main())
