"""Runs a program under the profiler until it and all processes that it leaves have ended.

Each process keeps its profile in a file of the folder while it runs, so that the profile is there
however the process ends. Ctrl-C reaches the program from the terminal, and ends only the program.
"""

import ctypes
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from nearmalloc_tools import library
from nearmalloc_tools.errors import Refused, say
from nearmalloc_tools.profile.profile import read_plain

_PR_SET_CHILD_SUBREAPER = 36
_PRUNE_SECONDS = 2
_MANY = 16  # files


class Answers(Protocol):
    """What processes ask when they end (nearmalloc_tools.leaks.command.Watcher)."""

    path: str
    listener: socket.socket

    def answer(self) -> None: ...


def own_bytes(plain: dict[str, Any]) -> float:
    """What a process allocated itself: a child of fork begins with its parent's sums."""
    allocated = sum(float(site["allocated"]["bytes"]) for site in plain["sites"])
    return allocated - float(plain.get("inherited", 0))


def profiles(folder: Path) -> dict[Path, float]:
    """The files of processes that took samples, and what each allocated."""
    found = {}
    for path in folder.iterdir():
        try:
            plain = read_plain(path)
        except (OSError, ValueError):  # a process has just begun, or ended while it began
            continue
        if plain["sites"]:
            found[path] = own_bytes(plain)
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


def environment(interval: int, folder: Path, answers: Answers | None) -> dict[str, str]:
    """The program's: the caller's, except for the profiler."""
    name = f"kept:{folder}/%p" + (f",unix:{answers.path}" if answers else "")
    return library.environment() | {
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": str(interval),
        "NEARMALLOC_PROFILE_FORMAT": "json",
        "NEARMALLOC_PROFILE_FILE": name,
    }


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


def _children() -> list[int]:
    text = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def _end_children(number: int) -> None:
    for child in _children():
        try:
            os.kill(child, number)
        except ProcessLookupError:
            continue


class Waiter:
    """Waits, and meanwhile answers the processes that end and deletes files that are not needed."""

    def __init__(self, folder: Path, answers: Answers | None) -> None:
        self._folder, self._answers = folder, answers
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        signal.signal(signal.SIGCHLD, lambda *_: None)  # so that it wakes
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._woken)
        os.close(self._wake)

    def until(self, is_over: Callable[[], bool]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            if self._answers:
                selector.register(self._answers.listener, selectors.EVENT_READ)
            while not is_over():
                if any(key.fd == self._woken for key, _ in selector.select(_PRUNE_SECONDS)):
                    os.read(self._woken, 4096)
                if self._answers:
                    self._answers.answer()
                prune(self._folder)

    def for_others(self, program: str) -> None:
        """Waits for processes that the program left; they became children of this one. The first
        Ctrl-C ends them, the next one leaves them alone."""
        interrupts = 0

        def interrupted(*_: object) -> None:
            nonlocal interrupts
            interrupts += 1
            _end_children(signal.SIGTERM)

        with _handlers(interrupted, interrupted):
            if left := _children():
                numbers = ", ".join(map(str, left))
                say(
                    f"{program} has ended; waiting for the processes that it left ({numbers}); "
                    "Ctrl-C ends them"
                )
            self.until(lambda: interrupts > 1 or _none_is_left())


def _none_is_left() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return True
    return False


def run(
    command: list[str], variables: dict[str, str], folder: Path, answers: Answers | None
) -> int:
    """Runs the program; returns its status, or minus the signal that ended it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Not ignored, because a program would inherit that: a handler that does nothing.
    with (
        Waiter(folder, answers) as waiter,
        _handlers(lambda *_: None, lambda *_: _end_children(signal.SIGTERM)),
    ):
        try:
            process = subprocess.Popen(command, env=variables)
        except OSError as error:
            raise Refused(f"{command[0]}: {error.strerror}") from error
        waiter.until(lambda: process.poll() is not None)
        waiter.for_others(Path(command[0]).name)
        return int(process.returncode)
