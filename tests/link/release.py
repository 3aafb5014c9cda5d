#!/usr/bin/env python3
"""ci/release.py makes archives that pass its tests, and says which step or program is at fault."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

from preload import LIBRARIES, SKIPPED, count, main

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "ci").glob("release*.py"))
TOOLS = ("git", "cmake", "ninja", "cc", "c++", "tar", "xz")


def release(*options: str | Path, root: Path = ROOT, **variables: str
            ) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, "-B", root / "ci/release.py", *options),
                          env=os.environ | variables, capture_output=True, text=True, check=False)


class Release(unittest.TestCase):
    def setUp(self) -> None:
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = Path(room.name)

    def test_archives(self) -> None:
        done = release("--build", LIBRARIES, "--allow-dirty", "--out", self.room)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        archives = sorted(self.room.glob("*.tar.xz"))
        self.assertEqual(len(archives), 3)
        for archive in archives:
            with tarfile.open(archive) as tar:
                entries = tar.getmembers()
            top = archive.name.removesuffix(".tar.xz")
            self.assertEqual({entry.name.partition("/")[0] for entry in entries}, {top})
            self.assertEqual(len({entry.mtime for entry in entries}), 1)
            self.assertEqual({(entry.uid, entry.gid) for entry in entries}, {(0, 0)})
            count()
        for step in ("checksums", "files", "pkg-config", "cmake", "preload", "debug", "uninstall"):
            self.assertIn(f"test-{step} ...\n", done.stdout)
            count()

    def test_a_failed_step_names_its_log(self) -> None:
        done = release("--build", self.room, "--allow-dirty", "--out", self.room)
        log = self.room / "log/binary.log"
        self.assertEqual((done.returncode, done.stderr),
                         (1, "release.py: step binary failed: cmake ended with status 1; "
                             f"log: {log}\n"))
        self.assertIn("cmake_install.cmake", log.read_text(encoding="utf-8"))
        count()

    def test_a_missing_program(self) -> None:
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path, f"{tool} is not installed"
            (self.room / tool).symlink_to(path)
        done = release("--no-test", PATH=str(self.room))
        self.assertEqual((done.returncode, done.stderr),
                         (2, "release.py: objcopy not found; Debian packages: binutils\n"))
        count()

    def test_changed_files_are_refused(self) -> None:
        (self.room / "ci").mkdir()
        for script in SCRIPTS:
            shutil.copy(script, self.room / "ci")
        for command in (("init", "--quiet"), ("add", "ci")):
            subprocess.run(("git", "-C", self.room, *command), check=True)
        done = release("--no-test", root=self.room)
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"release.py: {len(SCRIPTS)} tracked files are changed, as "
                             "ci/release.py; commit them or say --allow-dirty\n"))
        count()


if __name__ == "__main__":
    if not (ROOT / ".git").exists():
        sys.exit(SKIPPED)
    main()
