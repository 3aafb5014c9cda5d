#!/usr/bin/env python3
"""What `cmake --install` puts in place is found and linked by other projects, in both ways; and the
tools that it installs use the library that it installs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

from preload import LIBRARIES, count, main

CONSUMER = Path(__file__).resolve().parent / "consumer"
VERSION = "0.2.0"


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-800:]}{done.stderr[-800:]}")
    return done.stdout


def compiler(source: Path) -> tuple[str, ...]:
    if source.suffix == ".c":
        return (os.environ.get("CC", "cc"),)
    return (os.environ.get("CXX", "c++"), "-std=c++20")


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.room = tempfile.TemporaryDirectory()
        cls.prefix = Path(cls.room.name) / "prefix"
        run("cmake", "--install", LIBRARIES, "--prefix", cls.prefix)
        cls.source = Path(cls.room.name) / "consumer"
        shutil.copytree(CONSUMER, cls.source)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.room.cleanup()

    def library_dir(self) -> Path:
        return next(self.prefix.rglob("libnearmalloc.so")).parent

    def test_cmake_package(self) -> None:
        build = self.source / "build"
        run("cmake", "-G", "Ninja", "-S", self.source, "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        for target, owns in (("nearmalloc", 1), ("static", 1), ("api", 0), ("api_static", 0)):
            self.assertEqual(run(build / f"use_{target}"), f"{VERSION} 1 {owns}\n", target)
            count()
        for target in ("reclaim", "reclaim_static"):
            self.assertEqual(run(build / f"use_{target}"), "99 64\n", target)
            count()

    def test_pkg_config(self) -> None:
        """The files are read as pkg-config does: variables first, then flags."""
        for name, main_file, said in (("nearmalloc", "main.c", f"{VERSION} 1 1\n"),
                                      ("nearmalloc-api", "main.c", f"{VERSION} 1 0\n"),
                                      ("nearmalloc-reclaim", "set.cc", "99 64\n")):
            folder = self.library_dir() / "pkgconfig"
            text = (folder / f"{name}.pc").read_text().replace("${pcfiledir}", str(folder))
            values, flags = {}, {}
            for line in text.splitlines():
                for key, value in values.items():
                    line = line.replace("${" + key + "}", value)
                if "=" in line and ":" not in line.partition("=")[0]:
                    key, _, values[key] = line.partition("=")
                elif ":" in line:
                    key, _, value = line.partition(":")
                    flags[key] = value.split()
            self.assertEqual(flags["Version"], [VERSION])
            program = self.source / f"use-{name}"
            source = self.source / main_file
            run(*compiler(source), "-pthread", *flags["Cflags"], source, "-o", program,
                *flags["Libs"], f"-Wl,-rpath,{self.library_dir()}")
            self.assertEqual(run(program), said)
            count()

    def test_uninstall(self) -> None:
        """Files of others stay, and so do folders that others use, too; Python's caches leave."""
        prefix = Path(self.room.name) / "nearmalloc-prefix"
        run("cmake", "--install", LIBRARIES, "--prefix", prefix)
        run(sys.executable, "-m", "compileall", "-q", prefix)
        others = prefix / "include/nearmalloc/other.h"
        others.touch()
        run("cmake", "--build", LIBRARIES, "--target", "uninstall")
        left = [path for path in prefix.rglob("*") if path.is_symlink() or path.is_file()]
        self.assertEqual(left, [others])
        self.assertEqual(list(prefix.rglob("*nearmalloc*")), [others.parent])
        self.assertTrue((prefix / "share/man/man3").is_dir())
        count()

    def test_headers(self) -> None:
        """All are there, and each compiles by itself."""
        source = Path(os.environ["NEAR_TEST_INCLUDE"])
        installed = next(self.prefix.rglob("nearmalloc.h")).parent.parent
        names = {path.relative_to(source) for path in source.rglob("*.h*")}
        self.assertIn(Path("nearmalloc/heap.hpp"), names)
        self.assertEqual({path.relative_to(installed) for path in installed.rglob("*.h*")}, names)
        for name in sorted(names):
            alone = self.source / f"alone{'.c' if name.suffix == '.h' else '.cc'}"
            alone.write_text(f"#include <{name}>\n")
            run(*compiler(alone), "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                f"-I{installed}", alone)
            count()
        heaps = self.source / "heaps.cc"
        program = self.source / "heaps"
        for library in ("nearmalloc", "nearmalloc-api"):
            run(*compiler(heaps), "-Wall", "-Wextra", "-Werror",
                f"-I{installed}", heaps, "-o", program,
                f"-L{self.library_dir()}", f"-l{library}", f"-Wl,-rpath,{self.library_dir()}")
            self.assertEqual(run(program), "1\n")
            count()

    def test_manual_page(self) -> None:
        for document in ("man3/nearmalloc.3", "man1/nearmalloc.1", "options.md", "numa.md",
                         "latency.md"):
            self.assertEqual(len(list(self.prefix.rglob(document))), 1, document)
        count()

    def tools(self) -> list[str]:
        """The command `nearmalloc`, by this Python; it may lack the packages that it needs."""
        if not all(map(find_spec, ("typer", "rich", "elftools", "jinja2", "prometheus_client"))):
            self.skipTest(f"{sys.executable} has not the packages of the tools")
        return [sys.executable, "-B", str(self.prefix / "bin" / "nearmalloc")]

    def test_the_tools_run_a_program_on_the_installed_library_and_look_at_it(self) -> None:
        command = self.tools()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEAR", "PYTHON"))}

        def said(*words: str) -> str:
            done = subprocess.run([*command, *words], env=kept, capture_output=True, text=True,
                                  check=False, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        self.assertEqual(said("--version"), f"nearmalloc {VERSION}\n")
        library = self.library_dir().resolve() / "libnearmalloc.so.0"
        script = "import os; print(os.environ['LD_PRELOAD'], flush=True); input()"
        with subprocess.Popen([*command, "run", "--", sys.executable, "-c", script], env=kept,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            self.assertEqual(child.stdout.readline(), f"{library}\n")
            picture = said("top", str(child.pid), "--once")
            heaps = self.heaps_by_gdb(child.pid)
            child.communicate("\n")
        self.assertRegex(picture, rf"(?s)\({child.pid}\): .*Memory by node.*Size classes")
        self.assertRegex(heaps, r"heap 0 at 0x\w+: node 0, used by thread ")
        count()

    def test_suppressions(self) -> None:
        self.assertTrue((self.prefix / "share/nearmalloc/nearmalloc.supp").is_file())
        count()

    def heaps_by_gdb(self, pid: int) -> str:
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        script = next(self.prefix.rglob("share/nearmalloc/near_gdb.py"))
        packages = Path(find_spec("elftools").origin).parents[1]
        words = [word for each in (f"python import sys; sys.path.append('{packages}')",
                                   f"source {script}", "near heaps") for word in ("-ex", each)]
        done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off",
                               "-p", str(pid), *words],
                              capture_output=True, text=True, check=False, timeout=120)
        return done.stdout + done.stderr

    def test_the_tools_say_which_packages_are_missing(self) -> None:
        done = subprocess.run([sys.executable, "-I", "-S", self.prefix / "bin" / "nearmalloc"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^nearmalloc: packages are missing: apt install python3-.*"
                                      r"python3-typer, or pip install pyelftools .*\n$")
        count()

    def test_the_component_of_the_tools_has_no_library(self) -> None:
        prefix = Path(self.room.name) / "tools"
        run("cmake", "--install", LIBRARIES, "--prefix", prefix, "--component", "tools")
        found = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
        self.assertLessEqual({"bin/nearmalloc", "share/nearmalloc/near_gdb.py",
                              "share/nearmalloc/near_lldb.py",
                              "lib/nearmalloc/python/nearmalloc_tools/profile/page.html"}, found)
        self.assertEqual([each for each in found if re.search(r"libnear|\.h$|pyc$", each)], [])
        count()


if __name__ == "__main__":
    main()
