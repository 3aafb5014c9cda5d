#!/usr/bin/env python3
"""Invalid and double frees, blocks of other allocators, bad option values.

Invariant: in each mode of the option `invalid` a child does what the mode says; what is reported
names the pointer in hexadecimal and what is known of it.
"""

import os
import re
import signal
import unittest

from preload import PROGRAMS, PreloadTest, Result, count, main, run

CHECK_BUILD = os.environ.get("NEAR_TEST_BUILD") == "check"
SMALL = (16, 64, 100, 512, 1024, 4000, 8192, 20_000, 32_768)
LARGE = (200_000, 3_000_000, 70_000_000)


class Fault(PreloadTest):
    def bad_free(self, case: str, size: int, mode: str | None) -> tuple[Result, str, str]:
        """The result of a bad free, the pointer that was freed, the start of the block it is in."""
        result = run([PROGRAMS / "bad_free", case, str(size)],
                     extra={"NEARMALLOC_INVALID": mode} if mode else {})
        self.assertTrue(result.out, str(result))
        pointer, start = result.out.decode().split()[:2]
        count()
        return result, pointer, start

    def check_all_modes(self, case: str, size: int, *knows: str) -> None:
        for mode in (None, "abort"):
            result, pointer, start = self.bad_free(case, size, mode)
            self.assertEqual(result.status, -signal.SIGABRT, str(result))
            self.check_report(result, pointer, start, knows)
        result, pointer, start = self.bad_free(case, size, "report")
        self.assertEqual(result.status, 0, str(result))
        self.check_report(result, pointer, start, knows)
        result, _, _ = self.bad_free(case, size, "ignore")
        self.assertEqual(result.status, 0, str(result))
        self.assertEqual(result.complaints, b"")

    def check_report(self, result: Result, pointer: str, start: str,
                     knows: tuple[str, ...]) -> None:
        text = result.complaints.decode()
        self.assertIn("nearmalloc", text)
        self.assertIn(pointer, text)
        self.assertEqual(len(re.findall(r"^nearmalloc: \S", text, re.MULTILINE)), 1, text)
        for known in knows:
            self.assertRegex(text, known.replace("START", re.escape(start)))

    def test_pointers_that_are_no_blocks(self) -> None:
        for case in ("stack", "thread-stack", "data", "code", "wild", "low", "mapped-start",
                     "mapped", "mapped-filled", "mapped-twos", "unmapped"):
            with self.subTest(case):
                self.check_all_modes(case, 64, "not a block")

    def test_interior_pointers(self) -> None:
        for size in SMALL[1:] + LARGE:
            with self.subTest(size):
                self.check_all_modes("interior", size, "START", r"block of \d+ bytes")

    def test_unaligned_pointers(self) -> None:
        for size in SMALL + LARGE:
            with self.subTest(size):
                self.check_all_modes("unaligned", size, "START", r"block of \d+ bytes")

    def test_realloc_of_an_interior_pointer(self) -> None:
        for size in (100, 4000, 200_000):
            with self.subTest(size):
                self.check_all_modes("realloc", size, "START")

    def test_double_free_of_the_head_of_the_bin(self) -> None:
        for size in SMALL + LARGE:
            with self.subTest(size):
                self.check_all_modes("twice", size)

    def test_a_batch_that_names_a_block_twice_in_a_row(self) -> None:
        for size in SMALL + LARGE:
            with self.subTest(size):
                self.check_all_modes("batch-twice", size)

    def test_an_interior_pointer_in_a_batch(self) -> None:
        for size in SMALL[1:] + LARGE:
            with self.subTest(size):
                self.check_all_modes("batch-interior", size, "START", r"block of \d+ bytes")

    @unittest.skipUnless(CHECK_BUILD, "a promise of the check build")
    def test_any_double_free(self) -> None:
        for case in ("twice-later", "batch-twice-later"):
            for size in SMALL + LARGE:
                with self.subTest(case=case, size=size):
                    self.check_all_modes(case, size)

    @unittest.skipUnless(CHECK_BUILD, "a promise of the check build")
    def test_a_wrong_size(self) -> None:
        for case, sizes in (("sized", SMALL), ("sized-small", SMALL[1:]),
                            ("sized-delete", SMALL[1:])):
            for size in sizes + LARGE:
                with self.subTest(case=case, size=size):
                    result, pointer, _ = self.bad_free(case, size, "report")
                    self.assertIn(pointer, result.complaints.decode())

    def test_blocks_of_the_c_library_go_home(self) -> None:
        for mode in ("abort", "report", "ignore"):
            result = self.run_preloaded([PROGRAMS / "foreign"], extra={"NEARMALLOC_INVALID": mode})
            self.assertEqual(result.out, b"2000 blocks went home\n")
            self.assertEqual(result.complaints, b"")

    def test_bad_option_values_are_reported_once_and_ignored(self) -> None:
        values = {"NEARMALLOC_INVALID": ("banana", "3", "-1", "", "abort|report"),
                  "NEARMALLOC_PURGE_THREAD": ("2", "yes", "1x", "99999999999999999999"),
                  "NEARMALLOC_DECAY_MS": ("soon", "-5", "1e3"),
                  "NEARMALLOC_TOPOLOGY": ("nodes=0", "nodes=2;cpus=zero,one", "nonsense")}
        for name, bad_values in values.items():
            for bad in bad_values:
                with self.subTest(name=name, value=bad):
                    result = self.run_preloaded([PROGRAMS / "workload"], extra={name: bad})
                    text = result.complaints.decode()
                    self.assertEqual(text.count("\n"), 1, text)
                    self.assertIn(name, text)

    def test_bad_options_are_reported_before_main_only_once_per_process(self) -> None:
        result = self.run_preloaded([PROGRAMS / "fork_exec"],
                                    extra={"NEARMALLOC_INVALID": "banana"})
        # Itself, and each child that execs; a forked child says nothing again.
        self.assertEqual(result.complaints.decode().count("NEARMALLOC_INVALID"), 61)


if __name__ == "__main__":
    main()
