"""What the run of a server needs: its start is waited for, its clients are run, its end is judged.

A server that dies, or a client that fails, is a complaint. Thread-safety: one thread.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import TIMEOUT_S, Run, last_line

_START_S = 15.0
_LAST_WORDS_S = 1.0
_POLL_S = 0.02


class ServerError(RuntimeError):
    """The server or its client failed."""


class NotStarted(ServerError):
    """The server ended, or did not listen, before its first answer."""


def judged(server: measure.Child, load: Callable[[], tuple[str, float]]) -> Run:
    """Runs the load, which gives the answer and its seconds, and ends the server. Raises NotStarted
    if it never listened."""
    complaint, answer, seconds, started = None, "", 0.0, True
    try:
        answer, seconds = load()
    except (ServerError, OSError, subprocess.SubprocessError) as error:
        complaint, started = str(error), not isinstance(error, NotStarted)
        _let_end(server)
    server.terminate()
    sample = server.wait()
    if sample.failure() and sample.signal != signal.SIGTERM:
        complaint = f"server: {sample.failure()}{last_line(sample.stderr)}"
    if not started:
        raise NotStarted(complaint)
    return Run(sample, seconds, answer, complaint)


def _let_end(server: measure.Child) -> None:
    """Waits for a server that is about to end, so that its own exit status says why."""
    deadline = time.monotonic() + _LAST_WORDS_S
    while server.running() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def run_client(argv: Sequence[str | Path], folder: Path) -> str:
    """Runs a client to its end in the folder; returns its output. Raises ServerError if it failed.
    """
    done = subprocess.run(
        argv,
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT_S,
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
        time.sleep(_POLL_S)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
