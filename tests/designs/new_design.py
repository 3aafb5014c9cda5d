#!/usr/bin/env python3
"""docs/new-design.md is true: its example has the files and as little plumbing as it says."""

import os
import re
import unittest
from pathlib import Path

from preload import count, main

ROOT = Path(os.environ["NEAR_TEST_ROOT"])
PAGE = (ROOT / "docs/new-design.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "designs/hoard"
PLUMBING = ("this_design.h", "hoard.h", "hoard.cc")
MOST = 120


def code_lines(name: str) -> int:
    """Counts the lines that are neither empty nor a comment alone."""
    text = (EXAMPLE / name).read_text(encoding="utf-8")
    return sum(1 for line in text.splitlines() if not re.match(r"\s*(//|$)", line))


class NewDesign(unittest.TestCase):
    def test_the_plumbing_is_as_short_as_the_page_says(self) -> None:
        lines = {name: code_lines(name) for name in PLUMBING}
        for name, number in lines.items():
            self.assertIn(f"| `{name}` | {number} | plumbing:", PAGE)
            count()
        self.assertIn(f"at most {MOST} lines of plumbing", PAGE)
        self.assertIn(f"it has {sum(lines.values())}.", PAGE)
        self.assertLessEqual(sum(lines.values()), MOST)
        settings = sum(code_lines(name) for name in ("settings.h", "settings.cc"))
        self.assertIn(f"| `settings.h`, `settings.cc` | {settings} |", PAGE)
        count()

    def test_every_file_of_the_example_is_on_the_page(self) -> None:
        for path in EXAMPLE.iterdir():
            name = path.name if path.suffix != ".cc" else path.with_suffix(".h").name
            self.assertIn(f"`{name}`", PAGE)
            count()

    def test_every_shared_part_that_the_page_names_exists(self) -> None:
        parts = re.findall(r"\| `(\w+\.h)` \| [\w, ]+ \|$", PAGE, re.MULTILINE)
        self.assertGreater(len(parts), 5)
        for part in parts:
            self.assertTrue((ROOT / "designs/shared" / part).is_file(), part)
            count()

    def test_the_example_of_an_exchanged_level_is_scallocs(self) -> None:
        example = re.search(r"^```cpp\n(.*?)```$", PAGE, re.MULTILINE | re.DOTALL)
        self.assertIsNotNone(example)
        source = (ROOT / "designs/scalloc/list_front.h").read_text(encoding="utf-8")
        self.assertIn(example.group(1), source)
        count()

    def test_the_line_is_that_of_the_list(self) -> None:
        line = re.search(r"^```\n(.*)\n```$", PAGE, re.MULTILINE)
        self.assertIsNotNone(line)
        self.assertIn(line.group(1), (ROOT / "designs/list.txt").read_text("utf-8").splitlines())
        count()


if __name__ == "__main__":
    main()
