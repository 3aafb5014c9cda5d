#!/usr/bin/env python3
"""With %p in its name, each process of a program that forks much has a profile of its own: none is
lost, and none has what another process held.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from preload import PROGRAMS, PreloadTest, count, main, program, run

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from nearmalloc_tools.profile import kept

PROCESSES = 200


def held(profile: dict[str, Any]) -> set[tuple[int, int]]:
    """The size of the live blocks of each site, and how many there are."""
    lives = [site["live"] for site in profile["sites"]]
    return {(round(live["bytes"] / live["blocks"]), round(live["blocks"]))
            for live in lives if live["blocks"] > 0.5}


class Forked(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def options(self, name: str) -> dict[str, str]:
        return {"NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_FORMAT": "json",
                "NEARMALLOC_PROFILE_INTERVAL": "1", "NEARMALLOC_PROFILE_FILE": name}

    def profiles(self) -> dict[int, dict[str, Any]]:
        """By the numbers of the processes, which the profiles have too."""
        found = {}
        for path in (self.folder / "profiles").iterdir():
            data = path.read_bytes()
            told = kept.parse(data) if data.startswith(kept.MAGIC) else json.loads(data)
            self.assertEqual(told["pid"], int(path.name))
            found[told["pid"]] = told
        return found

    def run_all(self, command: list[str | Path], begin: str = "") -> list[list[str]]:
        """The lines of a program that tells of each of its processes."""
        (self.folder / "profiles").mkdir()
        extra = self.options(f"{begin}{self.folder}/profiles/%p")
        result = run(command, extra=extra, summary=False, cwd=self.folder)
        self.assert_good(result)
        self.assertEqual(result.err, b"")
        return [line.split() for line in result.out.decode().splitlines()]

    def run_forked(self, begin: str) -> list[tuple[int, tuple[int, int], str]]:
        lines = [(int(pid), (int(size), int(blocks)), way)
                 for pid, size, blocks, way in self.run_all([PROGRAMS / "forked"], begin)]
        self.assertEqual(len(lines), 1 + 100 + 20 + 20)
        self.assertEqual(len({pid for pid, _, _ in lines}), 121, "exec keeps the number")
        return lines

    def check(self, lines: list[tuple[int, tuple[int, int], str]], ways: set[str]) -> None:
        """Each process that ended in one of these ways has a profile, and no other one has."""
        found = self.profiles()
        last = {pid: (holds, way) for pid, holds, way in lines}  # exec comes before what it runs
        self.assertEqual(set(found), {pid for pid, (_, way) in last.items() if way in ways})
        every = {holds for _, holds, _ in lines}
        for pid, profile in found.items():
            self.assertEqual(held(profile) & every, {last[pid][0]}, f"process {pid}")
            count()

    def test_children_that_write_at_exit(self) -> None:
        self.check(self.run_forked(""), {"exit"})

    def test_children_that_keep_their_profile(self) -> None:
        self.check(self.run_forked("kept:"), {"exit", "kill", "_exit"})

    def test_a_shell_with_many_children(self) -> None:
        script = (f"echo $$; for i in $(seq {PROCESSES}); do sh -c 'echo $$; exec true' & done; "
                  "for i in 1 2 3 4 5; do sh -c 'echo $$; kill -TERM $$' & done; wait")
        lines = self.run_all([program("dash"), "-c", script], "kept:")
        pids = {int(line[0]) for line in lines}
        self.assertEqual(len(pids), 1 + PROCESSES + 5)
        self.assertLessEqual(pids, set(self.profiles()), "seq has one more")
        count(len(pids))

    def test_make_with_many_children(self) -> None:
        names = " ".join(f"t{i}" for i in range(PROCESSES))
        (self.folder / "Makefile").write_text(f"all: {names}\n{names}:\n\t@echo $$$$; :\n")
        # Its shells end by _exit.
        lines = self.run_all([program("make"), "-s", "-j", "8"], "kept:")
        pids = {int(line[0]) for line in lines}
        self.assertEqual(len(pids), PROCESSES)
        self.assertEqual(len(self.profiles()), PROCESSES + 1, "and make itself")
        self.assertLessEqual(pids, set(self.profiles()))
        count(len(pids))


if __name__ == "__main__":
    main()
