#!/usr/bin/env python3
"""Stacks of C++, Rust, and C that Go calls are shown with the names that their authors gave.

Each program holds 3,000,000 bytes from each planted function (programs/frames.*).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from preload import PreloadTest, count, main, program, run

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
from nearmalloc_tools.profile.profile import Profile, Site, read  # noqa: E402

PLANTED = 3_000_000
GO = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "1"}
RUSTC, GO_TOOL = "/usr/bin/rustc", "/usr/bin/go"  # Debian's


def has(site: Site, names: list[str]) -> bool:
    """The stack has these functions in this order, the innermost first, and others between."""
    functions = iter(frame.short for frame in site.stack)
    return all(name in functions for name in names)


class Frames(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def build(self, source: str, *command: str, **variables: str) -> Path:
        shutil.copy(HERE / "programs" / source, self.folder)
        made = subprocess.run([*command, source], cwd=self.folder, env=os.environ | variables,
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        return self.folder / "sample"

    def profile(self, binary: Path) -> Profile:
        """It is kept, because Go ends without handlers of exit."""
        path = self.folder / "profile"
        self.assert_good(run([binary], summary=False, extra={
            "NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_INTERVAL": "4096",
            "NEARMALLOC_PROFILE_FILE": f"kept:{path}"}))
        return read(path)

    def assert_shown(self, found: Profile, *names: str) -> Site:
        """The largest site with these functions, which all together allocated PLANTED."""
        sites = [site for site in found.sites if has(site, list(names))]
        size = sum(site.sums["allocated"] for site in sites)
        stacks = [[frame.short for frame in site.stack] for site in found.sites]
        self.assertLess(abs(size - PLANTED), 0.3 * PLANTED, f"{names}: {stacks}")
        count()
        return max(sites, key=lambda site: site.sums["allocated"])

    def assert_named(self, site: Site, name: str, place: str) -> None:
        """What the page calls the site, and where it is."""
        self.assertEqual(site.short, name)
        self.assertRegex(site.stack[0].place, place)

    def test_cpp(self) -> None:
        binary = self.build("frames.cc", program("c++"), "-std=c++20", "-O2", "-g", "-o", "sample")
        found = self.profile(binary)
        main_and_start = ("main", "_start")
        for name in ("store::Shelf<int>::plant_member", "store::Shelf<int>::operator+=",
                     "(anonymous namespace)::plant_hidden"):
            site = self.assert_shown(found, name, *main_and_start)
            self.assert_named(site, name, r"/frames\.cc:\d+$")
        # addr2line has no name for what is inlined here.
        self.assert_named(self.assert_shown(found, "around_inlined", *main_and_start),
                          "around_inlined", r"/frames\.cc:30$")
        self.assert_shown(found, "std::function<void (unsigned long)>::operator()", "main")
        self.assertTrue(any(has(site, ["std::vector<int>::push_back"]) for site in found.sites))
        names = {site.short for site in found.sites}
        self.assertFalse(any("allocator" in name for name in names), names)

    def test_rust(self) -> None:
        if not Path(RUSTC).exists():
            raise unittest.SkipTest("rustc is not installed")
        found = self.profile(self.build("frames.rs", RUSTC, "-O", "-g", "-o", "sample"))
        for name in ("frames::store::Shelf::plant_method", "frames::plant_generic",
                     "frames::main::{{closure}}"):
            site = self.assert_shown(found, name, "frames::main", "std::rt::lang_start_internal",
                                     "main", "_start")
            self.assertFalse(site.short.startswith(("alloc::alloc::", "<alloc::alloc::")), site)

    def test_c_that_go_calls(self) -> None:
        """The Go functions are on another stack."""
        if not Path(GO_TOOL).exists():
            raise unittest.SkipTest("golang-go is not installed")
        found = self.profile(self.build("frames.go", GO_TOOL, "build", "-o", "sample", **GO,
                                        GOCACHE=str(self.folder / "cache")))
        site = self.assert_shown(found, "plant_inner", "plant_outer")
        self.assert_named(site, "plant_inner", r"/frames\.(cgo2\.c|go):\d+$")
        frames = [frame.short for frame in site.stack]
        self.assertRegex(frames[2], r"^_cgo_\w+_Cfunc_plant_outer$")
        self.assertRegex(frames[3], r"^runtime\.asmcgocall(\.abi0)?$")
        cmalloc = [site for site in found.sites if site.short.endswith("_Cfunc__Cmalloc")]
        size = sum(site.sums["allocated"] for site in cmalloc)
        self.assertLess(abs(size - PLANTED), 0.3 * PLANTED)
        count()


if __name__ == "__main__":
    main()
