"""Locks: two processes exclude each other, the second says for what it waits."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from neardriver import locks, paths
from neardriver.messages import Misuse

HOLDER = """
import sys
from pathlib import Path
from neardriver import locks, paths
paths.LOCKS = Path(sys.argv[1])
sys.argv[1:] = sys.argv[3:]
with locks.hold("release"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that prints `held` when it holds the lock, until its stdin ends."""
    with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder), "--", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(paths.ROOT / "driver")}) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(stream: IO[str]) -> str:
    """The next line, within ten seconds."""
    assert select.select([stream], [], [], 10)[0], "nothing was printed"
    return stream.readline()


@pytest.fixture
def first(build):
    with holder(paths.LOCKS, "test", "a b") as process:
        assert read_line(process.stdout) == "held\n"
        yield process


def test_the_second_waits_and_says_for_which_command(build, first):
    with holder(paths.LOCKS, "build") as second:
        said = read_line(second.stderr)
        assert said == f"near: waiting for `./near test 'a b'` (process {first.pid})\n"
        assert not select.select([second.stdout], [], [], 0.2)[0], "it must not hold the lock"
        first.stdin.close()
        assert read_line(second.stdout) == "held\n"
        second.stdin.close()
        assert second.wait(10) == 0


def test_a_killed_holder_leaves_no_lock(build, first):
    first.kill()
    first.wait(10)
    with locks.hold("release"):
        pass


def test_trees_have_locks_of_their_own(build, first):
    with locks.hold("asan"):
        pass


def test_a_command_inside_a_locked_one_does_not_wait_for_its_parent(build):
    with locks.hold("release"), holder(paths.LOCKS) as inner:
        assert read_line(inner.stdout) == "held\n"
        inner.stdin.close()
        assert inner.wait(10) == 0 and inner.stderr.read() == ""
    assert "NEAR_LOCKED" not in os.environ


def test_two_commands_inside_one_exclude_each_other(build):
    with locks.hold("release"), holder(paths.LOCKS, "one") as one:
        assert read_line(one.stdout) == "held\n"
        with holder(paths.LOCKS, "two") as two:
            assert f"(process {one.pid})" in read_line(two.stderr)
            one.stdin.close()
            assert read_line(two.stdout) == "held\n"
            two.stdin.close()


def test_a_long_command_is_shortened(build, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["near", "run", "--", "x" * 500])
    with locks.hold("release"):
        (file,) = paths.LOCKS.iterdir()
        assert len(file.read_text()) < 100


def test_a_folder_that_cannot_be_written_is_a_misuse(build, monkeypatch):
    file = build / "file"
    file.touch()
    monkeypatch.setattr(paths, "LOCKS", file / "locks")
    with pytest.raises(Misuse, match="cannot write to .*locks: Not a directory"), \
            locks.hold("release"):
        pass
