#!/usr/bin/env python3
"""Valgrind, ltrace and uftrace see the same program with the library preloaded.

Valgrind's tools bring a malloc of their own, so only the library's threads and locks remain. With
the option SERVED the library serves the program.
Invariant: a correct program has no report; a race in a program's own memory has a report.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from preload import LIBRARY, PROGRAMS, PreloadTest, Result, count, main, program, run

WATCHED = PROGRAMS / "watched"
SUPPRESSIONS = Path(__file__).resolve().parents[2] / "tools" / "nearmalloc.supp"
SERVED = "--soname-synonyms=somalloc=nouserintercepts"
SUMMARY = re.compile(rb"ERROR SUMMARY: (\d+) errors from (\d+) contexts")
PRELOAD = {"LD_PRELOAD": str(LIBRARY)}


class Valgrind(PreloadTest):
    def watch(self, tool: str, *arguments: str, own: bool = True) -> Result:
        """Runs the program under the tool; without the file of suppressions if not `own`."""
        options = [f"--suppressions={SUPPRESSIONS}"] if own else []
        command = [program("valgrind"), f"--tool={tool}", *options, *arguments]
        result = run(command, preload=False, extra=PRELOAD)
        self.assert_good(result)
        self.assertEqual(result.out, b"ok\n")
        count()
        return result

    def contexts(self, tool: str, *arguments: str, own: bool = True) -> int:
        found = SUMMARY.search(self.watch(tool, *arguments, own=own).err)
        self.assertIsNotNone(found)
        return int(found[2])

    def expect_quiet(self, tool: str) -> None:
        self.assertGreater(self.contexts(tool, WATCHED, own=False), 0, "there is none to suppress")
        self.assertEqual(self.contexts(tool, WATCHED), 0)
        race = self.watch(tool, WATCHED, "race")
        self.assertIn(b"write_unlocked", race.err)
        self.assertGreater(int(SUMMARY.search(race.err)[2]), 0)

    def test_helgrind(self) -> None:
        self.expect_quiet("helgrind")

    def test_drd(self) -> None:
        self.expect_quiet("drd")

    def test_memcheck(self) -> None:
        """Also where the library serves the program, and the tool sees no heap."""
        self.assertEqual(self.contexts("memcheck", WATCHED), 0)
        self.assertEqual(self.contexts("memcheck", SERVED, WATCHED), 0)
        self.assertIn(b"Invalid read of size 1", self.watch("memcheck", WATCHED, "overrun").err)


class Tracers(PreloadTest):
    def setUp(self) -> None:
        room = tempfile.TemporaryDirectory(prefix="near-test-")
        self.addCleanup(room.cleanup)
        self.room = Path(room.name)
        source = self.room / "calls.c"
        source.write_text("#include <stdlib.h>\n"
                          "static void call(void) { free(realloc(malloc(9), 900)); }\n"
                          "int main(void) { for (int i = 0; i < 40; i++) call(); return 0; }\n")
        self.binary = self.room / "calls"
        subprocess.run([program("gcc"), "-fno-builtin", "-pg", source, "-o", self.binary],
                       check=True)

    def traced(self, *command: str | Path) -> bytes:
        result = run(command, preload=False, extra=PRELOAD, cwd=self.room)
        self.assert_good(result)
        count()
        return result.out

    def test_ltrace(self) -> None:
        """A program with one thread: ltrace crashes with more threads, on any malloc."""
        self.traced(program("ltrace"), "-e", "malloc+realloc+free", "-o", "calls.txt", self.binary)
        lines = (self.room / "calls.txt").read_text(encoding="utf-8").splitlines()
        for name in ("malloc", "realloc", "free"):
            calls = [line for line in lines if f"->{name}(" in line or line.startswith(f"{name}(")]
            self.assertEqual(len(calls), 40, name)

    def test_uftrace(self) -> None:
        self.traced(program("uftrace"), "record", "--no-event", "-d", "trace", self.binary)
        report = self.traced(program("uftrace"), "report", "-d", "trace", "-f", "call").decode()
        calls = {line.split()[1]: int(line.split()[0])
                 for line in report.splitlines() if re.fullmatch(r"\s*\d+\s+\w+", line)}
        self.assertEqual([calls.get(name) for name in ("call", "malloc", "realloc", "free")],
                         [40] * 4, report)


if __name__ == "__main__":
    main()
