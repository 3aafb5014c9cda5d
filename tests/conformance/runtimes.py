#!/usr/bin/env python3
"""operator new and delete with each C++ runtime, linked in each way, in programs and in plugins.

The programs of runtimes/ are compiled once for each runtime and linked in every way.
Invariant: each prints its number of cases, and nothing on standard error.
"""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from preload import LIBRARIES, LIBRARY, PreloadTest, Result, count, main, run

SOURCES = Path(__file__).resolve().parent / "runtimes"
PROGRAMS = ("failing_new", "caught_by_any", "replaced_single", "replaced_others")
FLAGS = ("-std=c++20", "-O0", "-fPIC", "-fno-builtin")  # so that every call happens
ARCHIVE = LIBRARIES / "libnearmalloc.a"
SHARED = (LIBRARY, f"-Wl,-rpath,{LIBRARIES}")
CASES = re.compile(rb"cases: (\d+)\n")


@dataclass(frozen=True)
class Runtime:
    compiler: str
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        return "libc++" if self.flags else "libstdc++"

    @property
    def own(self) -> tuple[str, ...]:
        """The flags that link it statically alone."""
        return ("-static-libstdc++", "-static-libgcc")


LIBSTDCXX = Runtime(os.environ["NEAR_TEST_CXX"], ())
LIBCXX = Runtime("clang++-19", ("-stdlib=libc++",))


def tool(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-800:]}{done.stderr[-1600:]}")


class Runtimes(PreloadTest):
    room: tempfile.TemporaryDirectory
    objects: dict[tuple[str, str], Path] = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.room = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.room.name)
        cls.host = cls.folder / "plugin_host"
        tool(os.environ["NEAR_TEST_CC"], SOURCES / "plugin_host.c", "-o", cls.host)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.room.cleanup()

    def need(self, runtime: Runtime) -> None:
        if shutil.which(runtime.compiler) is None:
            self.skipTest(f"{runtime.compiler} is not installed")
        source = self.folder / "probe.cc"
        source.write_text("#include <new>\nint main() { return 0; }\n", encoding="utf-8")
        probe = (runtime.compiler, *runtime.flags, source, "-o", self.folder / "probe")
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{runtime.compiler} finds no {runtime.name}")

    def object_of(self, runtime: Runtime, program: str) -> Path:
        key = (runtime.name, program)
        if key not in self.objects:
            made = self.folder / f"{program}-{runtime.name}.o"
            tool(runtime.compiler, *runtime.flags, *FLAGS, "-c", SOURCES / f"{program}.cc",
                 "-o", made)
            self.objects[key] = made
        return self.objects[key]

    def link(self, runtime: Runtime, program: str, name: str, *flags: str | Path) -> Path:
        made = self.folder / name
        tool(runtime.compiler, *runtime.flags, self.object_of(runtime, program), *flags,
             "-o", made)
        return made

    def passes(self, result: Result) -> None:
        self.assert_good(result)
        self.assertEqual(result.complaints, b"")
        found = CASES.fullmatch(result.out)
        self.assertTrue(found and int(found.group(1)) > 0, str(result))
        count(int(found.group(1)))

    def check_programs(self, runtime: Runtime, *, preload: bool, flags: tuple = ()) -> None:
        self.need(runtime)
        for program in PROGRAMS:
            with self.subTest(program):
                made = self.link(runtime, program, program, *flags)
                result = run([made], preload=preload, extra={"NEARMALLOC_STATS": "1"})
                self.assert_served(result)
                self.passes(result)

    def test_preloaded(self) -> None:
        for runtime in (LIBSTDCXX, LIBCXX):
            with self.subTest(runtime.name):
                self.check_programs(runtime, preload=True)

    def test_preloaded_with_a_runtime_of_its_own(self) -> None:
        for runtime in (LIBSTDCXX, LIBCXX):
            with self.subTest(runtime.name):
                self.check_programs(runtime, preload=True, flags=runtime.own)

    def test_linked(self) -> None:
        self.check_programs(LIBSTDCXX, preload=False, flags=SHARED)

    def test_linked_with_a_runtime_of_its_own(self) -> None:
        self.check_programs(LIBSTDCXX, preload=False, flags=(*SHARED, *LIBSTDCXX.own))

    def test_linked_to_the_archive(self) -> None:
        self.check_programs(LIBSTDCXX, preload=False, flags=(ARCHIVE,))

    def test_linked_to_the_archive_with_a_runtime_of_its_own(self) -> None:
        self.check_programs(LIBSTDCXX, preload=False, flags=(ARCHIVE, *LIBSTDCXX.own))

    def test_linked_statically(self) -> None:
        for runtime in (LIBSTDCXX, LIBCXX):
            with self.subTest(runtime.name):
                self.check_programs(runtime, preload=False, flags=("-static", ARCHIVE))

    def plugin(self, runtime: Runtime, *flags: str) -> Path:
        self.need(runtime)
        return self.link(runtime, "failing_new", f"plugin-{runtime.name}{''.join(flags)}.so",
                         "-shared", *flags)

    def run_plugins(self, *plugins: str) -> None:
        result = run([self.host, *plugins], preload=True)
        self.assert_served(result)
        self.passes(result)

    def test_plugins_of_a_c_program(self) -> None:
        for runtime in (LIBSTDCXX, LIBCXX):
            for flags in ((), runtime.own):
                with self.subTest(runtime.name, flags=flags):
                    self.run_plugins(f"{self.plugin(runtime, *flags)}=plugin_run")

    def test_a_plugins_library(self) -> None:
        """It was linked, not opened: the loader has no search list for it."""
        inner = self.plugin(LIBSTDCXX)
        outer = self.folder / "outer.so"
        tool(os.environ["NEAR_TEST_CC"], "-shared", "-fPIC", SOURCES / "outer_plugin.c", inner,
             "-o", outer)
        self.run_plugins(f"{outer}=outer_run")

    def test_two_runtimes_in_one_process(self) -> None:
        """Each plugin throws with its own runtime.

        In the other order the unwinders of the two clash, under glibc's malloc as well.
        """
        plugins = [f"{self.plugin(runtime)}=plugin_run" for runtime in (LIBSTDCXX, LIBCXX)]
        self.run_plugins(*plugins)

    def test_a_python_extension(self) -> None:
        code = ("import ctypes, sys; "
                "print('cases:', ctypes.CDLL(sys.argv[1]).plugin_run(1), flush=True)")
        python = shutil.which("python3") or self.skipTest("python3 is not installed")
        result = run([python, "-c", code, self.plugin(LIBSTDCXX)], preload=True)
        self.assert_served(result)
        self.passes(result)


if __name__ == "__main__":
    main()
