#!/usr/bin/env python3
"""Every public header compiles alone, without a warning, and so does the example in its comment.

By GCC, by Clang where it is installed, and by GCC with its thread sanitizer, whose warnings come
when code is made.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from preload import count, main

INCLUDE = Path(os.environ["NEAR_TEST_INCLUDE"])
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}")
GCC = ("g++-12", "g++")
CLANG = ("clang++-19",)
WITH_EXAMPLES = ("abtree", "handler_guard", "hash_map", "list", "occtree", "skip_list",
                 "std26/hazard_pointer", "std26/rcu", "std26")
# The first lines of a comment that are indented.
EXAMPLE = re.compile(r"^//\n((?://   .*\n|//\n)+)", re.MULTILINE)


def public_headers() -> list[str]:
    found = (path.relative_to(INCLUDE) for path in (INCLUDE / "nearmalloc").rglob("*.h*"))
    return sorted(str(path) for path in found if "impl" not in path.parts)


def example_of(header: str) -> str:
    match = EXAMPLE.search((INCLUDE / header).read_text(encoding="utf-8"))
    assert match, f"{header} shows no example"
    code = re.sub(r"^// {0,3}", "", match.group(1), flags=re.MULTILINE)
    if "#include" in code:
        return code
    return f"using namespace near::reclaim;\nvoid example() {{\n{code}}}\n"


class Headers(unittest.TestCase):
    def setUp(self) -> None:
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = Path(room.name)

    def compiler(self, names: tuple[str, ...]) -> str:
        found = next(filter(shutil.which, names), None)
        if found is None:
            self.skipTest(f"{names[0]} is not installed")
        return found

    def compile(self, header: str, code: str, *command: str) -> None:
        source = self.folder / "alone.cc"
        source.write_text(f"#include <{header}>\n{code}", encoding="utf-8")
        done = subprocess.run((*command, *FLAGS, source), cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr[:1500]), (0, ""), header)
        count()

    def compile_each(self, compiler: str) -> None:
        for header in public_headers():
            with self.subTest(header):
                self.compile(header, "", compiler, "-fsyntax-only")

    def test_alone_by_gcc(self) -> None:
        self.compile_each(self.compiler(GCC))

    def test_alone_by_clang(self) -> None:
        self.compile_each(self.compiler(CLANG))

    def compile_examples(self, *command: str) -> None:
        for name in WITH_EXAMPLES:
            with self.subTest(name):
                header = f"nearmalloc/reclaim/{name}.hpp"
                self.compile(header, example_of(header), *command)

    def test_examples_by_clang(self) -> None:
        self.compile_examples(self.compiler(CLANG), "-fsyntax-only")

    def test_examples_with_the_thread_sanitizer(self) -> None:
        self.compile_examples(self.compiler(GCC), "-fsanitize=thread", "-O1", "-c")


if __name__ == "__main__":
    main()
