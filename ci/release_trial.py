"""Tests the archives of a release as a user would use them.

The binary archive is unpacked into an empty prefix. Programs are built against it by pkg-config
and by CMake and run; `nearmalloc top` reads one; GDB finds the debug archive; the manifest removes
everything.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from release_archives import MANIFEST, OWN_NAME, ROOT, Release
from release_steps import Step

CONSUMER = ROOT / "tests/link/consumer"
SQUARES = "99 64\n"
HEAPS = "1\n"
PROFILE = {"NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_INTERVAL": "1",
           "NEARMALLOC_PROFILE_FORMAT": "collapsed"}


def unpack(step: Step, archive: Path, folder: Path) -> None:
    """Unpacks the archive's folder as `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    step.run("tar", "--extract", "--file", archive, "--directory", folder,
             "--strip-components=1")


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_symlink() or path.is_file()}


class Trial:
    def __init__(self, logs: Path, out: Path, release: Release, room: Path) -> None:
        self.logs = logs
        self.out = out
        self.release = release
        self.prefix = room / "prefix"
        self.destination = room / "destination"
        self.programs = room / "programs"
        self.programs.mkdir()
        self.libraries = self.prefix / "lib"

    def step(self, name: str) -> Step:
        return Step(self.logs, f"test-{name}")

    def all(self, tree: Path) -> None:
        self.test_checksums()
        self.test_files(tree)
        self.test_pkg_config()
        self.test_cmake()
        self.test_preload()
        self.test_tools()
        self.test_debug()
        self.test_uninstall()

    def test_checksums(self) -> None:
        self.step("checksums").run("sha256sum", "--check", "--strict", "SHA256SUMS",
                                   folder=self.out)

    def test_files(self, tree: Path) -> None:
        """The archive has what the build tree installs, and the manifest."""
        step = self.step("files")
        unpack(step, self.out / f"{self.release.binary}.tar.xz", self.prefix)
        step.run("cmake", "--install", tree, "--prefix", "/usr",
                 variables={"DESTDIR": str(self.destination)})
        files = files_in(self.prefix)
        installed = files_in(self.destination / "usr")
        step.expect(files, installed | {str(MANIFEST)}, "the list of files")
        step.expect([name for name in files if "__pycache__" in name], [], "the list of caches")

    def flags(self, step: Step, package: str, *options: str) -> list[str]:
        variables = {"PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        return shlex.split(step.run("pkg-config", *options, "--cflags", "--libs", package,
                                    variables=variables))

    def test_pkg_config(self) -> None:
        """Programs in C and C++, with the shared and with the static libraries."""
        step = self.step("pkg-config")
        cc, cxx = ("cc",), ("c++", "-std=c++20", "-pthread")
        version = self.release.version
        for package, compiler, source, said in (
                ("nearmalloc", cc, "main.c", f"{version} 1 1\n"),
                ("nearmalloc-api", cc, "main.c", f"{version} 1 0\n"),
                ("nearmalloc", cxx, "heaps.cc", HEAPS),
                ("nearmalloc-reclaim", cxx, "set.cc", SQUARES)):
            program = self.programs / f"{package}-{Path(source).stem}"
            step.run(*compiler, CONSUMER / source, "-o", program, *self.flags(step, package),
                     f"-Wl,-rpath,{self.libraries}")
            step.expect(step.run(program), said, f"the output of {program.name}")
            static = self.programs / f"{program.name}-static"
            step.run(*compiler, "-static", CONSUMER / source, "-o", static,
                     *self.flags(step, package, "--static"))
            step.expect(step.run(static), said, f"the output of {static.name}")

    def test_cmake(self) -> None:
        step = self.step("cmake")
        build = self.programs / "cmake"
        step.run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build,
                 f"-DCMAKE_PREFIX_PATH={self.prefix}")
        step.run("cmake", "--build", build)
        version = self.release.version
        for target, said in (("nearmalloc", f"{version} 1 1\n"), ("static", f"{version} 1 1\n"),
                             ("api", f"{version} 1 0\n"), ("api_static", f"{version} 1 0\n"),
                             ("reclaim", SQUARES), ("reclaim_static", SQUARES)):
            step.expect(step.run(build / f"use_{target}"), said, f"the output of use_{target}")

    def test_preload(self) -> None:
        """By its absolute path; the profiler unwinds through the stripped library."""
        step = self.step("preload")
        library = self.libraries / "libnearmalloc.so"
        preload = {"LD_PRELOAD": str(library)}
        maps = step.run("cat", "/proc/self/maps", variables=preload)
        step.expect(str(library.resolve()) in maps, True, "the map of the preloaded process")
        profile = self.programs / "profile.collapsed"
        step.run(sys.executable, "-c", "kept = [bytearray(1000) for n in range(1000)]",
                 variables=preload | PROFILE | {"NEARMALLOC_PROFILE_FILE": str(profile)})
        deepest = max(line.count(";") for line in profile.read_text(encoding="utf-8").splitlines())
        step.expect(deepest > 3, True, "the depth of the profile's stacks")

    def test_tools(self) -> None:
        """`nearmalloc top` reads a program that is linked to the stripped library."""
        tool = self.prefix / "bin/nearmalloc"
        if not tool.exists():
            print("  left out: the archive has no bin/nearmalloc")
            return
        step = self.step("tools")
        # The tool's interpreter is the one that runs this file.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with subprocess.Popen((self.programs / "nearmalloc-main", "wait"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as program:
            try:
                assert program.stdout is not None
                program.stdout.readline()
                said = step.run(tool, "top", "--once", str(program.pid), variables={"PATH": path})
            finally:
                program.communicate()
        step.expect("Memory by node" in said, True, "the output of nearmalloc top")

    def test_debug(self) -> None:
        """GDB has line numbers where the debug archive is unpacked over the prefix, else none."""
        step = self.step("debug")
        question = ("gdb", "-nx", "-batch", "-ex", "info line near_version",
                    self.libraries / "libnearmalloc.so")
        step.expect("Line " in step.run(*question), False, "a line without the debug archive")
        unpack(step, self.out / f"{self.release.debug}.tar.xz", self.prefix)
        step.expect("Line " in step.run(*question), True, "a line with the debug archive")

    def test_uninstall(self) -> None:
        """The documented line; folders that other packages use, too, may stay."""
        step = self.step("uninstall")
        step.run("sh", "-c", f"xargs rm -rf < {MANIFEST}", folder=self.prefix)
        left = files_in(self.prefix) | {str(path) for path in self.prefix.rglob(f"{OWN_NAME}*")}
        step.expect(left, set(), "the list of files that are left")
