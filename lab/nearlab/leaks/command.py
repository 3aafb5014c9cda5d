"""`./near run --leaks -- PROGRAM`: runs a program, and says at exit what it can no longer reach.

Each process of it hands its profile to a socket when it ends by exit, after its own handlers of
exit. It waits there until it was looked at. Exit status: LEAKS if a process leaks, else the
program's own; FAILED if that is 0 and the program was not looked at.
"""

import json
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
from typing import Annotated, Any

import numpy as np
import typer

from nearlab import alone
from nearlab.leaks import exit_frame, report, roots
from nearlab.leaks.scan import Scan
from nearlab.leaks.stopped import Stopped
from nearlab.profile.profile import with_names
from nearlab.top.blocks import Blocks
from nearlab.top.census import Reader
from nearlab.top.process import Process, Refused, find_layout

LEAKS, FAILED = 23, 1


class Watcher:
    """Listens to the processes of the program, which wait when they end.

    A server that root started may have given up root's rights by then, so each user reaches root's
    socket. A process of another user is looked at only if the program started it.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        if os.getuid() == 0:
            path.chmod(0o666)
            path.parent.chmod(0o711)
        self.listener.listen(128)
        self.listener.setblocking(False)

    def answer(self) -> None:
        """Looks at all processes that wait."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return
            with connection:
                try:
                    self._look(connection)
                except (Refused, OSError, ValueError) as error:
                    print(f"near: a process was not looked at: {error}", file=sys.stderr)

    def _look(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, user, _ = struct.unpack("3i", peer)
        if user not in (0, os.getuid()) and os.getpid() not in _ancestors(pid):
            raise Refused(f"process {pid} is another user's, and not of the program")
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
        self.handle(Process(pid), json.loads(b"".join(parts)))

    def handle(self, process: Process, told: dict[str, Any]) -> None:
        """Looks at a process that wrote this profile and waits. Refused: that is impossible."""
        raise NotImplementedError


def _ancestors(pid: int) -> Iterator[int]:
    """The parents of a process, the nearest first."""
    while pid > 1:
        pid = int(Process(pid).file("stat").rpartition(")")[2].split()[1])
        yield pid


class Reporter(Watcher):
    """Reports the leaks of each process."""

    def __init__(self, path: Path, ignored: list[str]) -> None:
        super().__init__(path)
        self.looked = 0  # at so many processes
        self.leaking = 0
        self._ignored = ignored

    def handle(self, process: Process, told: dict[str, Any]) -> None:
        leaks = leaks_in(process, told, self._ignored)
        print(f"near: {report.text(told, leaks, process.name)}", file=sys.stderr)
        self.looked += 1
        self.leaking += bool(leaks)


def leaks_in(process: Process, told: dict[str, Any], ignored: list[str]) -> list[report.Leak]:
    """What a process that waits at its end can no longer reach."""
    blocks, found = look(process, [(start, end) for start, end in told["own"]])
    sites = with_names(dict(told)).sites
    return report.leaks_of(told, sites, blocks, found, ignored)


def look(process: Process, own: list[roots.Range]) -> tuple[Blocks, Scan]:
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
        return blocks, Scan(process, blocks, where, b"".join(words))


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
        with tempfile.TemporaryDirectory(prefix="near-") as folder:
            watcher = Reporter(Path(folder) / "at-exit", ignore or [])
            status = _watch(_start(command, interval, watcher.path), watcher)
    except (Refused, OSError) as refusal:
        print(f"near: {refusal}", file=sys.stderr)
        sys.exit(FAILED)
    if watcher.leaking:
        sys.exit(LEAKS)
    if not watcher.looked:
        print(
            "near: no process was looked at: a program that ends by a signal or by _exit, is "
            "static or set-uid, or has another malloc is not",
            file=sys.stderr,
        )
        status = status or FAILED
    sys.exit(status)


if __name__ == "__main__":
    alone.run(leaks, "run --leaks")
