#!/usr/bin/env python3
"""Two clones in folders of other names and depths give byte-identical release archives."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from preload import SKIPPED, count, main

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-800:]}{done.stderr[-800:]}")


class Reproducible(unittest.TestCase):
    def test_archives_of_two_clones(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outs = []
            origin = ROOT
            for clone, umask in ((Path(folder) / "a", 0o022), (Path(folder) / "deep/er/b", 0o077)):
                run("git", "clone", "--quiet", "--shared", origin, clone)
                origin = clone  # so that both have the same commit
                outs.append(clone / "out")
                run("sh", "-c", f'umask {umask:o}; exec "$@"', "sh",
                    sys.executable, "-B", clone / "ci/release.py", "--no-test", "--out", outs[-1])
            names = sorted(path.name for path in outs[0].glob("*.tar.xz"))
            self.assertEqual(len(names), 3)
            for name in (*names, "SHA256SUMS"):
                self.assertEqual(*((out / name).read_bytes() for out in outs), name)
                count()


if __name__ == "__main__":
    if not (ROOT / ".git").exists():
        sys.exit(SKIPPED)
    main()
