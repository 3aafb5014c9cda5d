"""The real programs: each gives its answer under glibc and under nearmalloc, served by the right
malloc; a fault is a complaint, and no process is left running.

Invariant: nothing is installed here. A program that is missing is skipped with its packages named.
Thread-safety: pytest.
"""

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

import processes
from nearlab import programs
from nearlab.measure import measure
from nearlab.programs import base, given, install, server
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
_ASK = [base.python(), f"{base.SOURCES}/ask.py", "{folder}/socket"]


@dataclass
class Seen:
    """The servers that were started, and their folders."""

    pids: list[int]
    folders: list[Path]

    def clean(self) -> bool:
        """True if no process or folder is left."""
        gone = all(processes.ends(pid) for pid in self.pids)
        return gone and not any(folder.exists() for folder in self.folders)


@pytest.fixture
def seen(monkeypatch):
    found = Seen([], [])
    start = measure.start_child

    def remember(*arguments, **options):
        child = start(*arguments, **options)
        found.pids.append(child.pid)
        found.folders.append(options["cwd"])
        return child

    monkeypatch.setattr(measure, "start_child", remember)
    return found


def echo(tmp_path: Path, commands: bytes, script: str = _ECHO, **words) -> base.Program:
    """A server that replies with the bytes that it received, and its client."""
    commands_file = tmp_path / "commands"
    commands_file.write_bytes(commands)
    server_words = {
        "start": [base.python(), "-c", script],
        "ready": _ASK,
        "client": [*_ASK, str(commands_file), "done", "done"],
        **words,
    }
    program = given.Given.model_validate({"name": "echo", "server": server_words}).program()
    program.prepare(tmp_path, quick=True)
    return program


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


def test_a_reply_larger_than_what_a_socket_holds_is_taken_while_it_is_sent(found, tmp_path):
    text = b"x" * (3 << 20) + b"done"
    run = echo(tmp_path, text).run(found["glibc"], {})
    assert run.complaint is None
    assert run.answer == hashlib.sha256(text).hexdigest()
    assert run.sample.served_by == "glibc"


@pytest.mark.parametrize(
    ("commands", "complaint"),
    [(b"die", "server: exit code 1: no more"), (b"hang up", ": the server closed the connection")],
)
def test_a_server_that_dies_during_its_work_is_a_complaint(
    found, monkeypatch, tmp_path, seen, commands, complaint
):
    monkeypatch.setattr(server, "_LAST_WORDS_S", 30 if commands == b"die" else 0)
    # The client sends parts that end with `done`, so these commands come from one of their own.
    talk = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('socket');"
        f"s.sendall({commands!r}); s.recv(9) or sys.exit('the server closed the connection')"
    )
    one = echo(tmp_path, b"done", client=[base.python(), "-c", talk])
    assert one.run(found["glibc"], {}).complaint.endswith(complaint)
    assert seen.clean() and len(seen.pids) == 1


def test_a_server_that_crashes_is_a_complaint(found, tmp_path, seen):
    client = ["sh", "-c", "kill -SEGV $$(cat pid); sleep 0.3; exit 1"]
    script = "import os; open('pid', 'w').write(str(os.getpid()))" + _ECHO
    run = echo(tmp_path, b"done", script, client=client).run(found["glibc"], {})
    assert run.complaint == "server: ended by SIGSEGV"
    assert seen.clean()


def test_a_server_that_does_not_start_is_tried_three_times(found, tmp_path, seen):
    run = echo(tmp_path, b"done", "raise SystemExit('taken')").run(found["glibc"], {})
    assert run.complaint == "server: exit code 1: taken"
    assert run.sample is None
    assert len(set(seen.folders)) == 3
    assert seen.clean()


def test_a_command_may_prepare_each_start_and_its_failure_is_a_complaint(found, tmp_path, seen):
    before = ["sh", "-c", "echo done > {folder}/commands"]
    client = [*_ASK, "{folder}/commands", "done", "done"]
    ready = echo(tmp_path, b"", before=before, client=client)
    assert ready.run(found["glibc"], {}).complaint is None
    assert len(seen.pids) == 1
    failing = echo(tmp_path, b"done", before=["sh", "-c", "echo full >&2; exit 3"])
    run = failing.run(found["glibc"], {})
    assert (run.complaint, run.sample) == ("sh: exit code 3: full", None)
    assert len(seen.pids) == 1, "nothing is started after it"


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_no_server_is_left_when_the_load_ends_early(found, tmp_path, monkeypatch, seen, end):
    ask = given.run_client

    def fail(words, folder):
        if len(words) > len(_ASK):
            raise end("early")
        return ask(words, folder)

    monkeypatch.setattr(given, "run_client", fail)
    one = echo(tmp_path, b"done")
    if end is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            one.run(found["glibc"], {})
    else:
        assert one.run(found["glibc"], {}).complaint == "early"
    assert len(seen.pids) == 1 and seen.clean()


def test_a_client_that_fails_is_a_complaint(tmp_path):
    with pytest.raises(server.ServerError, match="sh: exit code 3: no"):
        server.run_client(["sh", "-c", "echo no >&2; exit 3"], tmp_path)


@pytest.mark.skipif(
    bool(programs.by_name()["nginx"].missing()), reason="nginx, ab or curl is not installed"
)
def test_nginx_takes_another_port_when_its_own_is_taken(found, tmp_path, monkeypatch):
    nginx = programs.by_name()["nginx"]
    nginx.prepare(tmp_path, quick=True)
    ports, starts = [], []
    start, free_port = measure.start_child, server.free_port

    def chosen():
        ports.append(free_port())
        return ports[-1]

    def take_the_first(*arguments, **options):
        starts.append(arguments)
        if len(starts) > 1:
            return start(*arguments, **options)
        with socket.create_server(("127.0.0.1", ports[0])):
            child = start(*arguments, **options)
            server.wait_until(lambda: not child.running(), child)
        return child

    monkeypatch.setattr(given, "free_port", chosen)
    monkeypatch.setattr(measure, "start_child", take_the_first)
    assert nginx.run(found["glibc"], {}).complaint is None
    assert len(starts) == len(ports) == 2
