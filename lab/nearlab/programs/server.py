"""A program that is a server: started under the allocator in a private folder, loaded by clients.

Invariant: the server and its folder are gone after the run in every case; it listens below
that folder or on its own port of the loopback. Memory and CPU time are the server's, the
time is that of the clients' work. For the system's malloc, libc is preloaded, because a server may
link another malloc. A server that dies, or violates its protocol, is a complaint.
Thread-safety: one thread.
"""

import contextlib
import select
import signal
import socket
import subprocess
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from nearlab.measure import measure
from nearlab.peers import Allocator
from nearlab.programs.base import TIMEOUT_S, Program, Run, last_line

_START_S = 15.0
_LAST_WORDS_S = 1.0
_PIECE = 1 << 16


class ServerError(RuntimeError):
    """The server or its client failed."""


class NotStarted(ServerError):
    """The server ended, or did not listen, before its first answer."""


class ServerProgram(Program):
    """Subclasses say how the server is started and what its clients do."""

    tree = False  # the server forks
    handles_term = True  # it ends with status 0 when it is told to
    attempts = 1  # attempts to start it; another program may have taken its port

    @abstractmethod
    def server(self, folder: Path) -> Sequence[str | Path]:
        """The server's command; may write into `folder`, which is private to one start."""

    @abstractmethod
    def load(self, server: measure.Child, folder: Path) -> tuple[str, float]:
        """The clients' work: the answer, and the seconds it took. Raises ServerError."""

    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        for left in reversed(range(self.attempts)):
            try:
                return self._run_once(allocator, env)
            except NotStarted as error:
                if left == 0:
                    return Run(None, 0.0, "", str(error))
        raise AssertionError("a server is started at least once")

    def _run_once(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        # A socket's path has at most 107 bytes, so the folder is not below the build folder.
        with tempfile.TemporaryDirectory(prefix=f"near-{self.name}-") as name:
            folder = Path(name)
            with measure.start_child(
                self.server(folder),
                preload=allocator.library or "libc.so.6",
                env=env,
                cwd=folder,
                timeout=TIMEOUT_S,
                tree=self.tree,
            ) as server:
                return self._measure(server, folder)

    def _measure(self, server: measure.Child, folder: Path) -> Run:
        complaint, answer, seconds, started = None, "", 0.0, True
        try:
            answer, seconds = self.load(server, folder)
        except (ServerError, OSError, subprocess.SubprocessError) as error:
            complaint, started = str(error), not isinstance(error, NotStarted)
            _let_end(server)
        server.terminate()
        sample = server.wait()
        told = not self.handles_term and sample.signal == signal.SIGTERM
        if sample.failure() and not told:
            complaint = f"server: {sample.failure()}{last_line(sample.stderr)}"
        if not started:
            raise NotStarted(complaint)
        return Run(sample, seconds, answer, complaint)


def _let_end(server: measure.Child) -> None:
    """Waits for a server that is about to end, so that its own exit status says why."""
    deadline = time.monotonic() + _LAST_WORDS_S
    while server.running() and time.monotonic() < deadline:
        time.sleep(0.02)


def run_client(argv: Sequence[str | Path], input: str | None = None) -> str:
    """Runs a client to its end; returns its output. Raises ServerError if it failed."""
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT_S,
        input=input,
    )
    if done.returncode != 0:
        said = last_line(done.stderr) or last_line(done.stdout)
        raise ServerError(f"{Path(argv[0]).name}: exit code {done.returncode}{said}")
    return done.stdout


def wait_until(ready: Callable[[], bool], server: measure.Child) -> None:
    """Polls until `ready`; raises NotStarted if the server ended or takes too long."""
    deadline = time.monotonic() + _START_S
    while not ready():
        if not server.running() or time.monotonic() > deadline:
            raise NotStarted("the server did not start")
        time.sleep(0.02)


@contextlib.contextmanager
def connect(server: measure.Child, path: Path) -> Iterator[socket.socket]:
    """Returns a connection to the socket `path`, as soon as the server listens."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)

    def ready() -> bool:
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    with connection:
        wait_until(ready, server)
        yield connection


def ask(connection: socket.socket, commands: bytes, done: bytes) -> bytes:
    """Returns the replies to `commands`; the last one is the reply to `done`. It reads while it
    sends, because a server may stop reading commands until its replies are read."""
    left, reply = memoryview(commands), bytearray()
    while left or not reply.endswith(done):
        readable, writable, _ = select.select([connection], [connection] if left else [], [], 60)
        if not readable and not writable:
            raise ServerError("the server is silent")
        if writable:
            with contextlib.suppress(BlockingIOError):
                left = left[connection.send(left[:_PIECE], socket.MSG_DONTWAIT) :]
        if readable:
            part = connection.recv(1 << 20)
            if not part:
                raise ServerError("the server closed the connection")
            reply += part
    return bytes(reply)
