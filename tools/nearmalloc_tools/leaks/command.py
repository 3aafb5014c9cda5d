"""`nearmalloc leaks -- PROGRAM`: runs a program, and reports at exit what it can no longer reach.

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
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from nearmalloc_tools.debugger.debugger_commands import events_of
from nearmalloc_tools.errors import FAILED, Refused, say
from nearmalloc_tools.leaks import code, exit_frame, report, roots
from nearmalloc_tools.leaks.exit_report import receive
from nearmalloc_tools.leaks.ptrace import PtraceStop
from nearmalloc_tools.leaks.scan import Scan
from nearmalloc_tools.profile.profile import with_names
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.census import Census, Reader
from nearmalloc_tools.top.process import Process, find_layout

LEAKS = 23
_INTERVAL = 32768  # bytes between two samples, on average
_TROUBLES = ("spill", "bind_refused", "error")  # kinds of events that a report of leaks has
_QUEUE = 128  # processes that wait to be answered; the kernel lets one more wait


class _Stranger(Refused):
    """A process of another user that is not of the program."""


class Watcher:
    """Listens to the processes of the program, which wait when they end.

    A server that root started may have given up root's rights by then, so each user reaches root's
    socket, which has a folder of its own. A process of another user is looked at only if this
    process is among its parents. That is so for what the program started, until the one that
    started it ends: then only a subreaper, as `nearmalloc profile` is, becomes its parent.
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
        exit_report = receive(connection)
        process = Process(pid)
        # Its own word is good for numbers only.
        exit_report |= {"pid": pid, "user": user}
        if is_other:
            exit_report["modules"] = code.modules(process)
        self.handle(process, exit_report)

    def handle(self, process: Process, exit_report: dict[str, Any]) -> None:
        """Looks at a process that wrote this profile and waits. Refused: that is impossible."""
        raise NotImplementedError


def _complain(text: str) -> None:
    say(f"a process was not looked at: {text}")


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

    def handle(self, process: Process, exit_report: dict[str, Any]) -> None:
        leaks, census = seen_of(process, exit_report, self._ignored)
        troubles = events_of(census, _TROUBLES)
        say(report.text(exit_report, leaks, process.name, troubles))
        self.looked += 1
        self.leaking += bool(leaks)


def seen_of(
    process: Process, exit_report: dict[str, Any], ignored: list[str]
) -> tuple[list[report.Leak], Census]:
    """What a process that waits at its end can no longer reach, and its memory."""
    blocks, found, census = look(process, [(start, end) for start, end in exit_report["own"]])
    sites = with_names(dict(exit_report)).sites
    return report.leaks_of(exit_report, sites, blocks, found, ignored), census


def look(process: Process, own: list[roots.Range]) -> tuple[Blocks, Scan, Census]:
    """Stops the process for a scan."""
    reader = Reader(process, find_layout(process))
    with PtraceStop(process.pid) as stopped:
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
    found = []
    for pointer in pointers:
        if (number := blocks.number(pointer)) >= 0:
            end = blocks.start_of(number) + blocks.size[blocks.span_with(number)]
            found.append((pointer & ~7, end))
    return found


def _start(
    command: list[str], variables: dict[str, str], interval: int, path: str
) -> subprocess.Popen[bytes]:
    variables = variables | {
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": str(interval),
        "NEARMALLOC_PROFILE_FORMAT": "json",
        "NEARMALLOC_PROFILE_FILE": f"unix:{path}",
    }
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


def run_and_report(
    command: list[str], variables: dict[str, str], interval: int | None, ignored: list[str]
) -> int:
    """Runs a program that preloads nearmalloc by these variables; returns the exit status."""
    signal.signal(signal.SIGINT, lambda *_: None)  # it is for the program
    with Reporter(ignored) as watcher:
        child = _start(command, variables, interval or _INTERVAL, watcher.path)
        status = _watch(child, watcher)
    if watcher.leaking:
        return LEAKS
    if not watcher.looked:
        say(
            "no process was looked at: that is so if the program ends by a signal or by _exit, is "
            "static and was linked without nearmalloc, is set-uid, or has another malloc"
        )
        return status or FAILED
    return status
