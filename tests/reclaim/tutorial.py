#!/usr/bin/env python3
"""Each program of docs/reclamation-tutorial.md compiles, and prints the output in the text; the
program in docs/reclamation.md is an example that the tests run."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from preload import LIBRARIES, count, main

INCLUDE = Path(os.environ["NEAR_TEST_INCLUDE"])
DOCS = INCLUDE.parent / "docs"
TUTORIAL = DOCS / "reclamation-tutorial.md"
STEP = re.compile(r"^## (\d)\. .*?^```cpp\n(.*?)^```\n.*?^```text\n(.*?)^```\n",
                  re.MULTILINE | re.DOTALL)
STEPS = 6


class Tutorial(unittest.TestCase):
    def run_step(self, folder: Path, code: str) -> str:
        (folder / "step.cc").write_text(code, encoding="utf-8")
        subprocess.run(("c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}",
                        "step.cc", f"-L{LIBRARIES}", "-lnearreclaim", f"-Wl,-rpath,{LIBRARIES}",
                        "-o", "step"), cwd=folder, check=True)
        done = subprocess.run(folder / "step", check=True, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_each_step_prints_what_the_text_shows(self) -> None:
        text = TUTORIAL.read_text(encoding="utf-8")
        steps = STEP.findall(text)
        self.assertEqual([number for number, _, _ in steps], [str(n + 1) for n in range(STEPS)])
        self.assertEqual(text.count("```cpp\n"), STEPS)
        for number, code, shown in steps:
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                self.assertEqual(self.run_step(Path(folder), code), shown)
                count()

    def test_the_page_of_the_library_shows_an_example(self) -> None:
        text = (DOCS / "reclamation.md").read_text(encoding="utf-8")
        shown = re.findall(r"^```cpp\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)
        example = (DOCS / "examples" / "reclaim_set.cc").read_text(encoding="utf-8")
        self.assertEqual(shown, [example])
        count()


if __name__ == "__main__":
    main()
