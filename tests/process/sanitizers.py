#!/usr/bin/env python3
"""Programs that a compiler instruments run with the library preloaded and linked to them.

Each sanitizer of GCC and Clang, with each of its runtimes, replaces functions of the C library in
the process. Where a runtime owns malloc, the library's own names still serve.
Invariant: programs/sanitized.c prints "ok" and nothing on standard error, as it does alone.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from preload import API_LIBRARY, LIBRARIES, LIBRARY, PreloadTest, count, main, program, run

SOURCE = Path(__file__).resolve().parent / "programs" / "sanitized.c"
FLAGS = ("-O1", "-fno-builtin", "-pthread")  # so that every call of malloc happens
OWN_NAMES = ("-DOWN_NAMES", f"-I{os.environ['NEAR_TEST_INCLUDE']}")
# The program has no fault that would need names.
QUIET = {f"{name}_OPTIONS": "symbolize=0" for name in ("ASAN", "LSAN", "TSAN", "UBSAN", "MSAN")}


@dataclass(frozen=True)
class Runtime:
    """How a sanitizer's runtime is linked, and its file if that is shared."""

    flags: tuple[str, ...] = ()
    shared: str = ""


class Sanitizers(PreloadTest):
    folder: Path

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def build(self, *command: str | Path) -> bool:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode == 0

    def expect_ok(self, binary: Path, *arguments: str, **variables: str) -> None:
        result = run([binary, *arguments], preload=False, extra=QUIET | variables)
        self.assert_good(result)
        self.assertEqual((result.out, result.err), (b"ok\n", b""))
        count()

    def run_all(self, compiler: str, sanitizer: str, *runtimes: Runtime) -> None:
        """Skips a runtime that is not installed, or with which the program fails alone."""
        flag = f"-fsanitize={sanitizer}"
        objects = {name: self.folder / f"{name}.o" for name in ("standard", "own")}
        for name, extra in (("standard", ()), ("own", OWN_NAMES)):
            self.assertTrue(self.build(program(compiler), *FLAGS, flag, *extra, "-c", SOURCE,
                                       "-o", objects[name]))
        works = False
        for runtime in runtimes:
            link = (program(compiler), *FLAGS, flag, *runtime.flags, f"-Wl,-rpath,{LIBRARIES}")
            binary = self.folder / "program"
            if not self.build(*link, objects["standard"], "-o", binary):
                continue
            if run([binary], preload=False, extra=QUIET).out != b"ok\n":
                continue
            works = True
            with self.subTest("preloaded", compiler=compiler, sanitizer=sanitizer, link=runtime):
                if runtime.shared:
                    self.expect_ok(binary, LD_PRELOAD=f"{runtime.shared}:{LIBRARY}")
                if not runtime.shared or sanitizer != "address":  # it must come first
                    self.expect_ok(binary, LD_PRELOAD=str(LIBRARY))
            libraries = [LIBRARY, API_LIBRARY, API_LIBRARY.with_suffix(".a")]
            if not runtime.shared or sanitizer == "undefined":  # else the archive's malloc is first
                libraries.append(LIBRARY.with_suffix(".a"))
            for library in libraries:
                with self.subTest("linked", compiler=compiler, sanitizer=sanitizer, link=runtime,
                                  library=library.name):
                    self.assertTrue(self.build(*link, objects["own"], library, "-o", binary))
                    # A preloaded library passes foreign blocks to the next allocator in line.
                    self.expect_ok(binary, *(["f"] if library != LIBRARY else []))
                    if library.suffix == ".so":
                        self.expect_ok(binary, NEARMALLOC_MAGAZINES="1")
        if not works:
            self.skipTest(f"{compiler} has no runtime for {flag}")


class Gcc(Sanitizers):
    def run_both(self, sanitizer: str, name: str) -> None:
        shared = subprocess.run([program("gcc"), f"-print-file-name=lib{name}.so"], check=True,
                                capture_output=True, text=True).stdout.strip()
        self.run_all("gcc", sanitizer, Runtime(shared=shared), Runtime((f"-static-lib{name}",)))

    def test_address(self) -> None:
        self.run_both("address", "asan")

    def test_leak(self) -> None:
        self.run_both("leak", "lsan")

    def test_thread(self) -> None:
        self.run_both("thread", "tsan")

    def test_undefined(self) -> None:
        self.run_both("undefined", "ubsan")


class Clang(Sanitizers):
    def run_both(self, sanitizer: str, name: str) -> None:
        file = f"libclang_rt.{name}-{os.uname().machine}.so"
        shared = subprocess.run([program("clang-19"), f"-print-file-name={file}"], check=True,
                                capture_output=True, text=True).stdout.strip()
        flags = ("-shared-libsan", f"-Wl,-rpath,{Path(shared).parent}")
        self.run_all("clang-19", sanitizer, Runtime(), Runtime(flags, shared))

    def test_address(self) -> None:
        self.run_both("address", "asan")

    def test_thread(self) -> None:
        self.run_both("thread", "tsan")

    def test_undefined(self) -> None:
        self.run_both("undefined", "ubsan_standalone")

    def test_leak(self) -> None:
        """Its only runtime is linked statically, as is MemorySanitizer's."""
        self.run_all("clang-19", "leak", Runtime())

    def test_memory(self) -> None:
        self.run_all("clang-19", "memory", Runtime())


if __name__ == "__main__":
    main()
