"""Runs a program under the profiler until it and all processes that it leaves have ended.

Each process keeps its profile in a file of the folder while it runs, so that the profile is there
however the process ends. Ctrl-C reaches the program from the terminal, and ends only the program.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearlab.profile.profile import read_plain

_PR_SET_CHILD_SUBREAPER = 36
_PRUNE_SECONDS = 2
_MANY = 16  # files


class Refused(Exception):
    """The program cannot be profiled."""


def own_bytes(told: dict[str, Any]) -> float:
    """What a process allocated itself: a child of fork begins with its parent's sums."""
    allocated = sum(float(site["allocated"]["bytes"]) for site in told["sites"])
    return allocated - float(told.get("inherited", 0))


def profiles(folder: Path) -> dict[Path, float]:
    """The files of processes that took samples, and what each allocated."""
    found = {}
    for path in folder.iterdir():
        try:
            told = read_plain(path)
        except (OSError, ValueError):  # a process has just begun, or ended while it began
            continue
        if told["sites"]:
            found[path] = own_bytes(told)
    return found


def prune(folder: Path) -> None:
    """Deletes files of processes that have ended, but not the largest, if there are many."""
    if len(list(folder.iterdir())) <= _MANY:
        return
    found = profiles(folder)
    largest = max(found, key=found.__getitem__, default=None)
    for path in found:
        if path != largest and not Path(f"/proc/{path.name}").exists():
            path.unlink()


def _environment(library: Path, interval: int, folder: Path) -> dict[str, str]:
    preload = [str(library), *filter(None, [os.environ.get("LD_PRELOAD")])]
    variables = os.environ | {
        "LD_PRELOAD": ":".join(preload),
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": str(interval),
        "NEARMALLOC_PROFILE_FILE": f"kept:{folder}/%p",
    }
    # The program's environment is the caller's, except for the profiler: this module's own
    # variables would change how a Python program runs.
    for name in ("NEAR_LIBRARY", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        variables.pop(name, None)
    return variables


@contextmanager
def _handlers(interrupted: Any, ended: Any) -> Iterator[None]:
    """A signal that was ignored stays ignored: a program in the background is not interrupted."""
    wanted = {signal.SIGINT: interrupted, signal.SIGTERM: ended}
    before = {
        number: signal.signal(number, handler)
        for number, handler in wanted.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Stop(Exception):
    """The user does not want to wait longer."""


def _children() -> list[int]:
    text = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def _end_children(number: int) -> None:
    for child in _children():
        try:
            os.kill(child, number)
        except ProcessLookupError:
            continue


def _wait_for_others(program: str) -> None:
    """Waits for processes that the program left; they became children of this one. The first Ctrl-C
    ends them, the next one leaves them alone."""
    interrupts = 0

    def interrupted(*_: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise _Stop
        _end_children(signal.SIGTERM)

    with _handlers(interrupted, interrupted):
        try:
            left = _children()
            if left:
                numbers = ", ".join(map(str, left))
                print(
                    f"near: {program} has ended; waiting for the processes that it left "
                    f"({numbers}); Ctrl-C ends them",
                    file=sys.stderr,
                )
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            return
        except _Stop:
            return


def run(command: list[str], library: Path, interval: int, folder: Path) -> int:
    """Runs the program; returns its status, or minus the signal that ended it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    done = threading.Event()

    def prune_at_times() -> None:
        while not done.wait(_PRUNE_SECONDS):
            prune(folder)

    # Not ignored, because a program would inherit that: a handler that does nothing.
    with _handlers(lambda *_: None, lambda *_: _end_children(signal.SIGTERM)):
        try:
            process = subprocess.Popen(command, env=_environment(library, interval, folder))
        except OSError as error:
            raise Refused(f"{command[0]}: {error.strerror}") from error
        pruner = threading.Thread(target=prune_at_times, daemon=True)
        pruner.start()
        try:
            status = process.wait()
            _wait_for_others(Path(command[0]).name)
        finally:
            done.set()
            pruner.join()
    return status
