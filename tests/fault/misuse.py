#!/usr/bin/env python3
"""What the allocator does about a program's own errors is what docs/misuse.md says.

Invariant: each row of the table, in each mode of the option `invalid`, ends as the row says, by
SIGABRT or by itself, whatever the size of the blocks.
"""

import os
import re
import signal
from pathlib import Path

from preload import PROGRAMS, PreloadTest, Result, count, main, run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/misuse.md"
SOURCE = Path(__file__).resolve().parent / "misuse.c"
COLUMN = 3 if os.environ.get("NEAR_TEST_BUILD") == "check" else 2
ROW = re.compile(r"^\| `([a-z-]+)` \|([^|]+)\|([^|]+)\|([^|]+)\|$", re.MULTILINE)
SIZES = (64, 100, 1024, 2000)
# A span of these has so few blocks that some mistakes are found earlier, and one block behind
# another may be of another span.
LARGER_SIZES = (8192, 32_768)
OWNER = r"it is \d+ bytes into a block of \d+ bytes at 0x[0-9a-f]+; its span is of heap \d+, "


def rows() -> dict[str, str]:
    """The outcome of each case in this build."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return {row[1]: row[COLUMN + 1].strip() for row in ROW.finditer(text)}


def outcome(result: Result) -> str:
    """The outcome of a case whose reports end the process, in the words of the table."""
    at_once = b"mistake made" not in result.out
    if result.status == -signal.SIGABRT and result.complaints.startswith(b"nearmalloc: invalid "):
        return "at once" if at_once else "later"
    return "not found" if result.status == 0 and not at_once else f"something else: {result}"


class Misuse(PreloadTest):
    def run_case(self, case: str, size: int, mode: str) -> Result:
        count()
        return run([PROGRAMS / "misuse", case, str(size)], extra={"NEARMALLOC_INVALID": mode})

    def test_every_case_has_a_row(self) -> None:
        source = SOURCE.read_text(encoding="utf-8")
        cases = re.findall(r'^    \{"([a-z-]+)", ', source, re.MULTILINE)
        self.assertEqual(sorted(cases), sorted(rows()))
        self.assertGreater(len(cases), 20)
        count()

    def test_each_row_is_true(self) -> None:
        for case, expected in rows().items():
            for size in SIZES:
                with self.subTest(case=case, size=size):
                    self.assertEqual(outcome(self.run_case(case, size, "abort")), expected)

    def test_larger_blocks_end_in_one_of_the_ways(self) -> None:
        for case, expected in rows().items():
            for size in LARGER_SIZES:
                with self.subTest(case=case, size=size):
                    seen = outcome(self.run_case(case, size, "abort"))
                    self.assertIn(seen, ("at once", "later", "not found"))
                    if expected == "at once" and COLUMN == 3:
                        self.assertEqual(seen, expected)

    def test_what_is_reported_or_ignored_does_not_end_the_process(self) -> None:
        for case, expected in rows().items():
            for mode in ("report", "ignore"):
                with self.subTest(case=case, mode=mode):
                    result = self.run_case(case, 100, mode)
                    self.assertEqual(result.status, 0, str(result))
                    told = result.complaints.startswith(b"nearmalloc: invalid ")
                    self.assertEqual(told, mode == "report" and expected != "not found",
                                     str(result))

    def test_damage_is_reported_once_and_then_left_alone(self) -> None:
        for case in ("past-end-free", "write-after-free", "zero-after-free", "bit-after-free",
                     "write-after-remote-free"):
            for size in SIZES:
                with self.subTest(case=case, size=size):
                    result = self.run_case(case, size, "report")
                    text = result.complaints.decode()
                    self.assertEqual(text.count("\n"), 2, text)
                    self.assertRegex(text, r"^nearmalloc: invalid free list at 0x[0-9a-f]+: ")
                    self.assertRegex(text, OWNER + "this thread's\n")
                    self.assertIn(b"lives on", result.out)
                    self.assertIn(b"0 faults", result.out)


if __name__ == "__main__":
    main()
