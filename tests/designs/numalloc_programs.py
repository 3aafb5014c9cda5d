#!/usr/bin/env python3
"""The binding on a program, by libnumalloc.so and libnearbind.so, on two nodes of a processor."""

import os
import re
import subprocess
import unittest
from pathlib import Path

from preload import PROGRAMS, count, main

DESIGN = os.environ["NEAR_TEST_NUMALLOC"]
NEARBIND = os.environ["NEAR_TEST_NEARBIND"]
TOPOLOGY = "nodes=2 cpus=0,1"
EVERYWHERE = [0, 1]


def where(library: str, option: str, *prefix: str, topology: str = TOPOLOGY) -> list[list[int]]:
    """Who may run where, in the order of bound_threads.c."""
    name = "NEARBIND_OPTIONS" if library == NEARBIND else "NEARMALLOC_DESIGN_OPTIONS"
    environment = os.environ | {"LD_PRELOAD": library, "NEARMALLOC_TOPOLOGY": topology}
    if option:
        environment[name] = option
    out = subprocess.run([*prefix, str(PROGRAMS / "bound_threads")], env=environment, text=True,
                         capture_output=True, timeout=60, check=True)
    assert out.stderr == "", out.stderr
    lines = [[int(word) for word in re.findall(r" (\d+)", line)]
             for line in out.stdout.splitlines()]
    assert len(lines) == 7, out.stdout
    return lines


class BoundThreads(unittest.TestCase):
    def setUp(self) -> None:
        online = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii").strip()
        if online != "0-1" or os.sched_getaffinity(0) != {0, 1}:
            self.skipTest("it takes a machine with exactly two processors, both allowed")

    def test_threads_take_turns_and_own_attributes_count(self) -> None:
        for library in (DESIGN, NEARBIND):
            for option in ("", "binding=interleave"):
                before, first, after, second, detached, own, child = where(library, option)
                self.assertEqual(before, EVERYWHERE, "a process with one thread is left alone")
                self.assertEqual(len(after), 1)
                for thread in (first, second, detached):  # the one before it has ended
                    self.assertEqual(thread, [1 - after[0]])
                self.assertEqual(own, EVERYWHERE)
                self.assertEqual(child, EVERYWHERE)
                count()

    def test_saturate_fills_a_node_first(self) -> None:
        for library in (DESIGN, NEARBIND):
            lines = where(library, "binding=saturate")
            self.assertEqual(lines[1], [1 - lines[2][0]], "a processor a node: the next is free")
            count()

    def test_a_file_says_where(self) -> None:
        rules = Path(os.environ.get("TMPDIR", "/tmp")) / f"near-rules-{os.getpid()}"
        rules.write_text("0 1\n1-2 1\n3 any\n", encoding="utf-8")
        try:
            for library in (DESIGN, NEARBIND):
                lines = where(library, f"binding=file:{rules}")
                self.assertEqual(lines[1:5], [[1], [1], [1], EVERYWHERE])
                count()
        finally:
            rules.unlink()

    def test_off_and_one_node_and_a_restricted_process(self) -> None:
        for library in (DESIGN, NEARBIND):
            self.assertEqual(where(library, "binding=off"), [EVERYWHERE] * 7)
            self.assertEqual(where(library, "", topology="nodes=1"), [EVERYWHERE] * 7)
            narrow = where(library, "", "taskset", "1")
            self.assertEqual(narrow[:5], [[0]] * 5)
            self.assertEqual(narrow[6], [0])
            count(3)


if __name__ == "__main__":
    main()
