"""`./near run --leaks -- PROGRAM`: runs a program, and says at exit what it can no longer reach.

Each process of it hands its profile to a socket when it ends by exit, after its own handlers of
exit. It waits there until it was looked at. Exit status: LEAKS if a process leaks, else the
program's own; FAILED if that is 0 and the program was not looked at.
"""

import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import typer

from nearmalloc_tools import typer_app
from nearmalloc_tools.debugger.debugger_commands import events_of
from nearmalloc_tools.leaks import code, exit_frame, report, roots
from nearmalloc_tools.leaks.exit_report import receive
from nearmalloc_tools.leaks.ptrace import Stopped
from nearmalloc_tools.leaks.scan import Scan
from nearmalloc_tools.profile.profile import with_names
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.census import Census, Reader
from nearmalloc_tools.top.process import Process, Refused, find_layout

LEAKS, FAILED = 23, 1
_TROUBLES = ("spill", "bind_refused", "error")  # kinds of events that a report of leaks has
_QUEUE = 128  # processes that wait to be answered; the kernel lets one more wait


class _Stranger(Refused):
    """A process of another user that is not of the program."""


class Watcher:
    """Listens to the processes of the program, which wait when they end.

    A server that root started may have given up root's rights by then, so each user reaches root's
    socket, which has a folder of its own. A process of another user is looked at only if this
    process is among its parents. That is so for what the program started, until the one that
    started it ends: then only a subreaper, as `./near profile` is, becomes its parent.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="near-")
        path = Path(self._folder.name) / "at-exit"
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        if os.getuid() == 0:
            path.chmod(0o666)
            path.parent.chmod(0o711)
        self.listener.listen(_QUEUE)
        self.listener.setblocking(False)
        self._saw_strangers = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        self._folder.cleanup()

    def answer(self) -> None:
        """Looks at all processes that wait now, and not at more, so that this ends."""
        for _ in range(_QUEUE + 1):
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return
            with connection:
                try:
                    self._look(connection)
                except _Stranger as stranger:
                    # Each user could fill the terminal otherwise.
                    if not self._saw_strangers:
                        _complain(f"{stranger}; others of that kind are not named")
                    self._saw_strangers = True
                except Exception as error:  # it sends what it likes, and has what it likes
                    _complain(str(error) or type(error).__name__)

    def _look(self, connection: socket.socket) -> None:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, user, _ = struct.unpack("3i", peer)
        is_other = user not in (0, os.getuid())
        if is_other and not _is_ours(pid):
            raise _Stranger(f"process {pid} is another user's, and not of the program")
        connection.setblocking(True)
        told = receive(connection)
        process = Process(pid)
        # Its own word is good for numbers only.
        told |= {"pid": pid, "user": user}
        if is_other:
            told["modules"] = code.modules(process)
        self.handle(process, told)

    def handle(self, process: Process, told: dict[str, Any]) -> None:
        """Looks at a process that wrote this profile and waits. Refused: that is impossible."""
        raise NotImplementedError


def _complain(text: str) -> None:
    print(f"near: a process was not looked at: {text}", file=sys.stderr)


def _is_ours(pid: int) -> bool:
    """This process is among its parents."""
    try:
        return os.getpid() in _ancestors(pid)
    except Refused:  # it has ended
        return False


def _ancestors(pid: int) -> Iterator[int]:
    """The parents of a process, the nearest first."""
    while pid > 1:
        pid = int(Process(pid).file("stat").rpartition(")")[2].split()[1])
        yield pid


class Reporter(Watcher):
    """Reports the leaks of each process."""

    def __init__(self, ignored: list[str]) -> None:
        super().__init__()
        self.looked = 0  # at so many processes
        self.leaking = 0
        self._ignored = ignored

    def handle(self, process: Process, told: dict[str, Any]) -> None:
        leaks, census = seen_of(process, told, self._ignored)
        troubles = events_of(census, _TROUBLES)
        print(f"near: {report.text(told, leaks, process.name, troubles)}", file=sys.stderr)
        self.looked += 1
        self.leaking += bool(leaks)


def seen_of(
    process: Process, told: dict[str, Any], ignored: list[str]
) -> tuple[list[report.Leak], Census]:
    """What a process that waits at its end can no longer reach, and its memory."""
    blocks, found, census = look(process, [(start, end) for start, end in told["own"]])
    sites = with_names(dict(told)).sites
    return report.leaks_of(told, sites, blocks, found, ignored), census


def look(process: Process, own: list[roots.Range]) -> tuple[Blocks, Scan, Census]:
    """Stops the process for a scan."""
    reader = Reader(process, find_layout(process))
    with Stopped(process.pid) as stopped:
        registers = stopped.registers()
        begins = [exit_frame.begin(process, pointer) for pointer, _ in registers]
        pointers = [begin for begin, _ in begins]
        words = [words for (_, words), (_, count) in zip(registers, begins, strict=True) if count]
        where = roots.find(
            roots.parse(process.file("maps")),
            own,
            pointers,
            roots.stack_limit(process.file("limits")),
        )
        blocks = Blocks(reader)
        where += _stacks_in_blocks(blocks, pointers)
        return blocks, Scan(process, blocks, where, b"".join(words)), reader.take()


def _stacks_in_blocks(blocks: Blocks, pointers: list[int]) -> list[roots.Range]:
    """What a coroutine uses of a stack that it got from malloc."""
    at = np.array(pointers, dtype=np.int64)
    numbers = blocks.numbers(at)
    found = []
    for pointer, number in zip(pointers, numbers.tolist(), strict=True):
        if number >= 0:
            span = int(np.searchsorted(blocks.first, number, "right")) - 1
            end = int(blocks.starts(np.array([number]))[0]) + int(blocks.size[span])
            found.append((pointer & ~7, end))
    return found


def _start(command: list[str], interval: int, path: str) -> subprocess.Popen[bytes]:
    variables = os.environ | {
        "LD_PRELOAD": os.environ["NEAR_PRELOAD"],
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": str(interval),
        "NEARMALLOC_PROFILE_FORMAT": "json",
        "NEARMALLOC_PROFILE_FILE": f"unix:{path}",
    }
    # The rest of the environment is the caller's: what is for this module would change how a Python
    # program runs.
    for name in ("NEAR_PRELOAD", "PYTHONDONTWRITEBYTECODE"):
        variables.pop(name, None)
    try:
        return subprocess.Popen(command, env=variables)
    except OSError as error:
        raise Refused(f"{command[0]}: {error.strerror}") from error


def _watch(child: subprocess.Popen[bytes], watcher: Reporter) -> int:
    """Until the program has ended. Returns its status as a shell says it."""
    ended = os.pidfd_open(child.pid)
    with selectors.DefaultSelector() as selector:
        selector.register(watcher.listener, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            ready = [key.fd for key, _ in selector.select()]
            watcher.answer()
            if ended in ready:
                break
    os.close(ended)
    status = child.wait()
    return status if status >= 0 else 128 - status


def leaks(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT...]")],
    interval: Annotated[
        int, typer.Option(min=1, max=10**9, help="bytes between two samples, on average")
    ] = 32768,
    ignore: Annotated[
        list[str] | None, typer.Option(help="no leaks with this text in a function's name")
    ] = None,
) -> None:
    """Runs a program, and reports at exit the sampled blocks that it can no longer reach."""
    signal.signal(signal.SIGINT, lambda *_: None)  # it is for the program
    try:
        with Reporter(ignore or []) as watcher:
            status = _watch(_start(command, interval, watcher.path), watcher)
    except (Refused, OSError) as refusal:
        print(f"near: {refusal}", file=sys.stderr)
        sys.exit(FAILED)
    if watcher.leaking:
        sys.exit(LEAKS)
    if not watcher.looked:
        print(
            "near: no process was looked at: that is so if the program ends by a signal or by "
            "_exit, is static and was linked without nearmalloc, is set-uid, or has another malloc",
            file=sys.stderr,
        )
        status = status or FAILED
    sys.exit(status)


if __name__ == "__main__":
    typer_app.run(leaks, "run --leaks")
