#!/usr/bin/env python3
"""The tests can fail: each fault of support/broken_malloc.c is noticed by its tests.

Invariant: without a fault the same tests pass on the same library: it is the fault they notice.
"""

import os
import subprocess
import sys
from pathlib import Path

CONFORMANCE, STRESS, BROKEN = (Path(argument) for argument in sys.argv[1:4])
FAULTS = {
    "overlap": (CONFORMANCE, ("IsoC/0.LiveBlocksDoNotOverlap",
                              "IsoC/0.EverySizeUpTo70000GivesItsOwnBlock")),
    "short": (CONFORMANCE, ("IsoC/0.EverySizeUpTo70000GivesItsOwnBlock",)),
    "usable": (CONFORMANCE, ("Introspection/0.EveryUsableByteIsTheCallers",)),
    "misaligned": (CONFORMANCE, ("Alignment/0.MallocIsAlignedForAnyObject",)),
    "unaligned": (CONFORMANCE, ("Alignment/0.EveryPowerOfTwoUpTo64MiBHolds",)),
    "errno": (CONFORMANCE, ("IsoC/0.ImpossibleSizesAreOutOfMemory",)),
    "overflow": (CONFORMANCE, ("IsoC/0.CallocRefusesProductsThatOverflow",)),
    "dirty": (CONFORMANCE, ("IsoC/0.CallocIsZeroInRecycledBlocksToo",)),
    "forgetful": (CONFORMANCE, ("Resize/0.EveryPairOfSizesUpTo256KiBKeepsThePrefix",
                                "Resize/0.ByteByByteGrowthAndShrinkKeepsEveryByte")),
    "free": (CONFORMANCE, ("IsoC/0.FreeKeepsErrno",)),
    "leak": (CONFORMANCE, ("IsoC/0.FreedMemoryIsUsedAgain",)),
    "overlap ": (STRESS, ("Shadow/0.RandomOperationsAgreeWithAMap", "Sizes/0.RandomUpTo64MiB")),
    "forgetful ": (STRESS, ("Sizes/0.ReallocChains",)),
}


def passes(executable: Path, test: str, fault: str) -> tuple[bool, str]:
    """Whether `test` ended well, and its output. Blocks that overlap may make a program hang."""
    variables = os.environ | {"LD_PRELOAD": str(BROKEN), "BROKEN_MALLOC": fault,
                              "NEAR_TEST_EXPECT": ""}
    try:
        done = subprocess.run([executable, f"--gtest_filter={test}"], env=variables,
                              capture_output=True, text=True, errors="replace", timeout=60)
    except subprocess.TimeoutExpired:
        return False, "no end after 60 s"
    return done.returncode == 0, done.stdout + done.stderr


def main() -> None:
    cases = mistakes = 0
    for fault, (executable, tests) in FAULTS.items():
        for test in tests:
            sound, output = passes(executable, test, "")
            noticed = not passes(executable, test, fault.strip())[0]
            cases += 1
            if not sound or "[       OK ]" not in output:
                print(f"{test} fails without a fault:\n{output[-2000:]}")
                mistakes += 1
            elif not noticed:
                print(f"{test} does not notice the fault '{fault.strip()}'")
                mistakes += 1
    print(f"cases: {cases}")
    sys.exit(1 if mistakes else 0)


main()
