"""Locks: two processes exclude each other, the second says for what it waits."""

import os
import subprocess
import sys
import time
from pathlib import Path

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


def holder(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """A process that prints `held` when it holds the lock, until its stdin ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), "--", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "driver")} | variables)


@pytest.fixture
def first(build):
    with holder(paths.LOCKS, "test", "a b") as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_second_waits_and_says_for_which_command(build, first):
    with holder(paths.LOCKS, "build") as second:
        said = second.stderr.readline()
        assert said == f"near: waiting for `./near test 'a b'` (process {first.pid})\n"
        time.sleep(0.2)
        os.set_blocking(second.stdout.fileno(), False)
        assert second.stdout.readline() == ""
        os.set_blocking(second.stdout.fileno(), True)
        first.stdin.close()
        assert second.stdout.readline() == "held\n"
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
        assert inner.stdout.readline() == "held\n"
        inner.stdin.close()
        assert inner.wait(10) == 0 and inner.stderr.read() == ""
    assert "NEAR_LOCKED" not in os.environ


def test_two_commands_inside_one_exclude_each_other(build):
    with locks.hold("release"), holder(paths.LOCKS, "one") as one:
        assert one.stdout.readline() == "held\n"
        with holder(paths.LOCKS, "two") as two:
            assert f"(process {one.pid})" in two.stderr.readline()
            one.stdin.close()
            assert two.stdout.readline() == "held\n"
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
