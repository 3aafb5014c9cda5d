"""The real programs: each gives its answer under glibc and under nearmalloc, served by the right
malloc; a fault is a complaint, and no process is left running.

Invariant: nothing is installed here. A program that is missing is skipped with its packages named.
Thread-safety: pytest.
"""

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import processes
from nearlab import programs
from nearlab.measure import measure
from nearlab.programs import base, install, server
from nearlab.programs.mariadb import MariaDb
from nearlab.programs.nginx import Nginx
from nearlab.runs.work import Bench
from program_cells import cell_of

_ECHO = """
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
listener = socket.socket(socket.AF_UNIX)
listener.bind("socket")
listener.listen()
while True:
    connection, _ = listener.accept()
    while text := connection.recv(1 << 16):
        if text == b"die":
            sys.exit("no more")
        if text == b"hang up":
            break
        connection.sendall(text)
    connection.close()
"""


class Echo(server.ServerProgram):
    """A server that replies with the bytes that it received."""

    name = title = "echo"
    version = ("echo",)

    def __init__(self, commands: bytes, script: str = _ECHO):
        self._commands, self._script = commands, script
        self.folders: list[Path] = []
        self.pids: list[int] = []

    def prepare(self, folder: Path, quick: bool) -> None:
        pass

    def server(self, folder: Path) -> Sequence[str | Path]:
        self.folders.append(folder)
        return [Path(sys.executable).resolve(), "-c", self._script]

    def load(self, server_: measure.Child, folder: Path) -> tuple[str, float]:
        self.pids.append(server_.pid)
        with server.connect(server_, folder / "socket") as connection:
            return server.ask(connection, self._commands, b"done").decode(), 1.0


def clean(echo: Echo) -> bool:
    """True if no process or folder of the program's runs is left."""
    gone = all(processes.ends(pid) for pid in echo.pids)
    return gone and not any(folder.exists() for folder in echo.folders)


# Every program.


@pytest.mark.parametrize("name", list(programs.by_name()))
def test_the_answer_is_that_of_glibc_and_the_right_malloc_served_it(name, found, tmp_path):
    program = programs.by_name()[name]
    if lacking := program.missing():
        pytest.skip(f"not installed: {', '.join(lacking.values())}")
    allocators = [found[one] for one in ("glibc", "nearmalloc") if found[one].available]
    program.prepare(tmp_path, quick=True)
    bench = Bench(programs={program.name: program})
    for allocator in allocators:
        outcome = bench.run(cell_of(program), allocator)
        assert outcome.failure is None, outcome.failure
        served = {process.served_by for process in outcome.sample.processes}
        assert served == {allocator.name} and outcome.metrics["seconds"] > 0


def test_names_are_unique():
    names = list(programs.by_name())
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("program", programs.by_name().values(), ids=lambda program: program.name)
def test_a_missing_program_is_reported_with_its_packages(program, monkeypatch):
    monkeypatch.setattr(base, "which", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reason = install.provide(program)
    if not program.needs:
        assert reason is None
        return
    assert all(command in reason for command in program.needs)
    assert all(package in reason for package in program.needs.values())


def test_a_server_is_found_though_it_is_not_on_a_users_path(tmp_path, monkeypatch):
    command = tmp_path / "near-no-such-server"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    assert base.which(command.name) is None
    monkeypatch.setattr(base, "_SERVERS", ("/nowhere", str(tmp_path)))
    assert base.which(command.name) == str(command)


def test_what_is_installed_does_not_start_at_the_next_boot_and_the_rest_does(tmp_path):
    wanted = tmp_path / "multi-user.target.wants"
    wanted.mkdir()
    (wanted / "old.service").symlink_to("/lib/systemd/system/old.service")
    with install.none_at_boot(tmp_path):
        (wanted / "new.service").symlink_to("/lib/systemd/system/new.service")
    assert [link.name for link in wanted.iterdir()] == ["old.service"]


# What can go wrong with a server.


def test_a_reply_larger_than_what_a_socket_holds_is_taken_while_it_is_sent(found):
    text = b"x" * (3 << 20) + b"done"
    run = Echo(text).run(found["glibc"], {})
    assert run.complaint is None
    assert run.answer == text.decode()
    assert run.sample.served_by == "glibc"


@pytest.mark.parametrize(
    ("commands", "complaint"),
    [(b"die", "server: exit code 1: no more"), (b"hang up", "the server closed the connection")],
)
def test_a_server_that_dies_during_its_work_is_a_complaint(found, monkeypatch, commands, complaint):
    monkeypatch.setattr(server, "_LAST_WORDS_S", 30 if commands == b"die" else 0)
    echo = Echo(commands)
    run = echo.run(found["glibc"], {})
    assert run.complaint == complaint
    assert clean(echo)


def test_a_server_that_crashes_is_a_complaint(found, monkeypatch):
    echo = Echo(b"done")
    ask = server.ask

    def crash_first(*arguments):
        os.kill(echo.pids[0], signal.SIGSEGV)
        return ask(*arguments)

    monkeypatch.setattr(server, "ask", crash_first)
    assert echo.run(found["glibc"], {}).complaint == "server: ended by SIGSEGV"
    assert clean(echo)


def test_a_server_that_does_not_start_is_tried_again_as_often_as_it_says(found):
    echo = Echo(b"done", "raise SystemExit('taken')")
    echo.attempts = 3
    run = echo.run(found["glibc"], {})
    assert run.complaint == "server: exit code 1: taken"
    assert run.sample is None
    assert len(echo.folders) == 3
    assert clean(echo)


def test_a_client_that_fails_is_a_complaint():
    with pytest.raises(server.ServerError, match="sh: exit code 3: no"):
        server.run_client(["sh", "-c", "echo no >&2; exit 3"])


needs_nginx = pytest.mark.skipif(bool(Nginx().missing()), reason="nginx or ab is not installed")


@needs_nginx
def test_nginx_takes_another_port_when_its_own_is_taken(found, tmp_path, monkeypatch):
    nginx = Nginx()
    nginx.prepare(tmp_path, quick=True)
    starts = []
    start = measure.start_child

    def take_the_first(*arguments, **options):
        starts.append(nginx._port)
        if len(starts) > 1:
            return start(*arguments, **options)
        with socket.create_server(("127.0.0.1", nginx._port)):
            child = start(*arguments, **options)
            server.wait_until(lambda: not child.running(), child)
        return child

    monkeypatch.setattr(measure, "start_child", take_the_first)
    assert nginx.run(found["glibc"], {}).complaint is None
    assert len(starts) == 2


@pytest.mark.skipif(bool(MariaDb().missing()), reason="MariaDB or sysbench is not installed")
def test_a_data_folder_that_cannot_be_made_is_an_error_of_the_inputs(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "which", lambda _: "/bin/false")
    monkeypatch.setattr("nearlab.programs.mariadb.which", lambda _: "/bin/false")
    with pytest.raises(base.PrepareError, match="no data folder"):
        MariaDb().prepare(tmp_path, quick=True)
