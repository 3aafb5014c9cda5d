#!/usr/bin/env python3
"""The binding on a program, by libnumalloc.so and libnearbind.so, on two nodes: all processors but
the last, and the last."""

import os
import re
import subprocess
import tempfile
import unittest

from preload import PROGRAMS, count, main

DESIGN = os.environ["NEAR_TEST_NUMALLOC"]
NEARBIND = os.environ["NEAR_TEST_NEARBIND"]
EVERYWHERE = sorted(os.sched_getaffinity(0))
NODES = [EVERYWHERE[:-1], EVERYWHERE[-1:]]
TOPOLOGY = f"nodes=2 cpus={'+'.join(map(str, NODES[0]))},{EVERYWHERE[-1]}"


def where(library: str, option: str, *prefix: str, topology: str = TOPOLOGY,
          choice: str = "") -> list[list[int]]:
    """Which thread may run where, in the order of bound_threads.c."""
    name = "NEARBIND_OPTIONS" if library == NEARBIND else "NEARMALLOC_DESIGN_OPTIONS"
    environment = os.environ | {"LD_PRELOAD": library, "NEARMALLOC_TOPOLOGY": topology}
    if option:
        environment[name] = option
    command = [*prefix, str(PROGRAMS / "bound_threads"), *([choice] if choice else [])]
    out = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60,
                         check=True)
    assert out.stderr == "", out.stderr
    lines = [[int(word) for word in re.findall(r" (\d+)", line)]
             for line in out.stdout.splitlines()]
    assert len(lines) == (9 if choice else 7), out.stdout
    return lines


class BoundThreads(unittest.TestCase):
    def setUp(self) -> None:
        if len(EVERYWHERE) < 2 or len(EVERYWHERE) != os.cpu_count():
            self.skipTest("it takes two processors, and all must be allowed")

    def test_threads_take_turns_and_own_attributes_count(self) -> None:
        for library in (DESIGN, NEARBIND):
            for option in ("", "binding=interleave"):
                before, first, after, second, detached, own, child = where(library, option)
                self.assertEqual(before, EVERYWHERE, "a process with one thread is left alone")
                self.assertIn(after, NODES)
                for thread in (first, second, detached):  # the one before it has ended
                    self.assertEqual(thread, NODES[1 - NODES.index(after)])
                self.assertEqual(own, EVERYWHERE)
                self.assertEqual(child, EVERYWHERE)
                count()

    def test_a_thread_that_chose_its_processors_keeps_them(self) -> None:
        for library in (DESIGN, NEARBIND):
            # Bound to node 0, it goes to the processor of node 1.
            with tempfile.NamedTemporaryFile("w", prefix="near-rules-") as file:
                file.write("* 0\n")
                file.flush()
                lines = where(library, f"binding=file:{file.name}", choice=str(EVERYWHERE[-1]))
            self.assertEqual(lines[2], NODES[0])
            self.assertEqual(lines[7:], [NODES[1], NODES[1]], "its thread, and its child")
            count()

    def test_saturate_fills_a_node_first(self) -> None:
        for library in (DESIGN, NEARBIND):
            lines = where(library, "binding=saturate")
            node = NODES.index(lines[2])
            free = node if len(NODES[node]) > 1 else 1 - node
            self.assertEqual(lines[1], NODES[free], "the node that has a processor left")
            count()

    def test_a_file_says_where(self) -> None:
        with tempfile.NamedTemporaryFile("w", prefix="near-rules-") as file:
            file.write("0 1\n1-2 1\n3 any\n")
            file.flush()
            for library in (DESIGN, NEARBIND):
                lines = where(library, f"binding=file:{file.name}")
                self.assertEqual(lines[1:5], [NODES[1], NODES[1], NODES[1], EVERYWHERE])
                count()

    def test_off_and_one_node_and_a_restricted_process(self) -> None:
        for library in (DESIGN, NEARBIND):
            self.assertEqual(where(library, "binding=off"), [EVERYWHERE] * 7)
            self.assertEqual(where(library, "", topology="nodes=1"), [EVERYWHERE] * 7)
            narrow = where(library, "", "taskset", "--cpu-list", str(EVERYWHERE[0]))
            self.assertEqual(narrow, [EVERYWHERE[:1]] * 7)
            count(3)


if __name__ == "__main__":
    main()
