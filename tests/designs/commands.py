#!/usr/bin/env python3
"""`./near run` with designs and bindings: what the READMEs of designs/ say to type."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from preload import PROGRAMS, count, main

ROOT = Path(os.environ["NEAR_TEST_ROOT"])
DESIGNS = os.environ["NEAR_TEST_DESIGNS"].split(",")


# As published, super1 and super4 fill 96 MiB for each bin that a program uses.
AFFORDABLE = dict.fromkeys(("super1", "super4"), "constants=text")


def near(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NEARMALLOC_", "LD_PRELOAD"))}
    return subprocess.run([str(ROOT / "near"), "run", *words], env=environment | variables,
                          capture_output=True, text=True, timeout=100, check=False)


class Commands(unittest.TestCase):
    def test_every_design_runs_a_program_and_tells_its_counters(self) -> None:
        for design in DESIGNS:
            with self.subTest(design=design):
                result = near("--design", design, "--stats", "--", "ls", str(ROOT),
                              NEARMALLOC_DESIGN_OPTIONS=AFFORDABLE.get(design, ""))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("README.md", result.stdout)
                self.assertRegex(result.stderr, rf"(?m)^{design} \d+\.\d+\.\d+: \d+ KiB in use")
                self.assertRegex(result.stderr, rf"(?m)^{design} \d+\.\d+\.\d+: [a-z_ ]+: \d+$")
                count()

    def test_nearmalloc_runs_a_program(self) -> None:
        result = near("--stats", "--", "ls", str(ROOT))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^nearmalloc \d+\.\d+\.\d+: ")
        count()

    def test_statistics_tell_of_each_node_as_text_and_as_json(self) -> None:
        two_nodes = {"NEARMALLOC_TOPOLOGY": "nodes=2 cpus=0,1"}
        result = near("--stats", "--", "ls", str(ROOT), **two_nodes)
        self.assertEqual(result.returncode, 0, result.stderr)
        for node in (0, 1):
            self.assertRegex(result.stderr,
                             rf"(?m)^nearmalloc \d+\.\d+\.\d+: node {node}: \d+ KiB in spans ")
            self.assertRegex(result.stderr,
                             rf"(?m): blocks of node {node} freed by threads of 0: \d+, 1: \d+$")
        for variables, nodes in (({}, None), (two_nodes, 2)):
            result = near("--", "ls", str(ROOT), NEARMALLOC_STATS="json", **variables)
            self.assertEqual(result.returncode, 0, result.stderr)
            told = json.loads(result.stderr[result.stderr.index("{"):])
            expected = nodes or told["totals"]["nodes"]
            self.assertEqual(told["totals"]["nodes"], expected)
            self.assertEqual([len(row) for row in told["freed"]], [expected] * expected)
            for name in ("heaps", "committed", "in_spans"):
                self.assertEqual(sum(node[name] for node in told["nodes"]), told["totals"][name])
            count()

    def test_resident_memory_is_explained(self) -> None:
        result = near("--", "ls", str(ROOT), NEARMALLOC_EXPLAIN="exit")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^ +\d+ KiB is their sum; the kernel counts \d+ KiB")
        count()

    def test_a_profile_is_written_at_exit(self) -> None:
        with tempfile.TemporaryDirectory(prefix="near-test-") as folder:
            result = near("--", "ls", str(ROOT), NEARMALLOC_PROFILE="on",
                          NEARMALLOC_PROFILE_INTERVAL="100", NEARMALLOC_PROFILE_FORMAT="collapsed",
                          NEARMALLOC_PROFILE_FILE=f"{folder}/%p")
            self.assertEqual(result.returncode, 0, result.stderr)
            (written,) = Path(folder).iterdir()
            self.assertRegex(written.read_text(encoding="ascii"), r"(?m)^ls\+0x.* \d+$")
        count()

    def test_metrics_are_written_at_exit(self) -> None:
        result = near("--", "ls", str(ROOT), NEARMALLOC_STATS="openmetrics")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stderr.endswith("# EOF\n"), result.stderr)
        count()

    def test_threads_are_bound_under_any_allocator(self) -> None:
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2 or len(processors) != os.cpu_count():
            self.skipTest("it takes two processors, and all must be allowed")
        topology = f"nodes=2 cpus={'+'.join(map(str, processors[:-1]))},{processors[-1]}"
        for words in (["--bind", "interleave"], ["--design", "numalloc", "--bind", "saturate"]):
            result = near(*words, "--stats", "--", str(PROGRAMS / "bound_threads"),
                          NEARMALLOC_TOPOLOGY=topology)
            self.assertEqual(result.returncode, 0, result.stderr)
            # The first, two in turn and a detached one, and what the allocator creates; another
            # names its processors.
            self.assertRegex(result.stderr,
                             r"(?m)(: threads bound: 4$|: [4-9] threads bound, 1 left)")
            count()

    def test_a_switch_changes_what_a_design_counts(self) -> None:
        seen = []
        for options in ("", "superblock=64"):
            result = near("--design", "hoard", "--stats", "--", "ls", str(ROOT),
                          NEARMALLOC_DESIGN_OPTIONS=options)
            self.assertEqual(result.returncode, 0, result.stderr)
            seen.append(int(re.search(r"large_blocks: (\d+)$", result.stderr, re.MULTILINE)[1]))
            count()
        self.assertGreater(seen[0], seen[1], "blocks of 4 to 32 KiB have superblocks, too")

    def test_a_switch_that_is_none_is_reported_and_the_program_runs(self) -> None:
        for design in DESIGNS:
            result = near("--design", design, "--", "ls", str(ROOT),
                          NEARMALLOC_DESIGN_OPTIONS=f"{AFFORDABLE.get(design, '')},colour=red")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"nearmalloc: {design}: there is no switch 'colour'", result.stderr)
            count()

    def test_wrong_use_is_refused(self) -> None:
        for words, complaint in (
            (["--design", "libc", "--", "ls"], "unknown design 'libc'; there are: scalloc "),
            (["--design"], "Option '--design' requires an argument"),
            (["--bind", "tightly", "--", "ls"], "unknown policy 'tightly'; there are: interleave "),
            (["--design", "scalloc", "--"], "run needs a program"),
        ):
            result = near(*words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(complaint, result.stderr)
            count()


if __name__ == "__main__":
    main()
