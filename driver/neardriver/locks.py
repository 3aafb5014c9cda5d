"""Locks between `./near` commands: one for each build tree, one for packages.

Invariant: a command holds at most one lock, except where a test that runs under a tree's lock runs
`./near` itself. NEAR_LOCKED names the locks of the parents; the inner command takes a nested lock
of the same name, so two inner commands still exclude each other. The holder writes its command and
process id into the file. The system releases the lock when the holder ends, however it ends.
"""

import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neardriver import paths
from neardriver.messages import Misuse, say

_HELD = "NEAR_LOCKED"
PACKAGES = "packages"  # the package manager and build/venv; ./near takes this lock, too


@contextmanager
def hold(name: str) -> Iterator[None]:
    """Waits for the lock and holds it. A waiting command says for which command it waits."""
    parents = [held for held in os.environ.get(_HELD, "").split(":") if held]
    path = paths.LOCKS / f"{name}.lock"
    while str(path) in parents:
        path = path.with_name(path.name + ".nested")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise Misuse(f"cannot write to {path.parent}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {_holder(path)}")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{_this_command()}\n")
        file.flush()
        os.environ[_HELD] = ":".join([*parents, str(path)])
        try:
            yield
        finally:
            os.environ[_HELD] = ":".join(parents)
            if not parents:
                del os.environ[_HELD]


def _holder(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() or "another ./near"


def _this_command() -> str:
    words = shlex.join(["./near", *sys.argv[1:]])
    shown = words if len(words) <= 60 else f"{words[:57]}..."
    return f"`{shown}` (process {os.getpid()})"
