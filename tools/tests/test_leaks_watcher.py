"""Any process can reach the socket of `./near run --leaks` and `./near profile`, with anything."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearmalloc_tools.debugger.debugger_commands import events_of
from nearmalloc_tools.leaks import code, command, exit_report, report
from nearmalloc_tools.top.census import EVENT_KINDS, Census, OfEvent
from nearmalloc_tools.top.process import Process, find_symbol

NOBODY = 65534
EXIT_REPORT = {
    "version": 1,
    "pid": 1,
    "mean": 1,
    "started": 0,
    "seconds": 0,
    **dict.fromkeys(("samples", "own_bytes", "slice_bytes", "dropped_stacks", "dropped_blocks"), 0),
    **{name: [] for name in ("modules", "own", "blocks", "sites")},
}
GOOD = json.dumps(EXIT_REPORT).encode()
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root may run a process of another user")


class Recorder(command.Watcher):
    """Notes the processes that it looks at, and what they exit_report."""

    def __init__(self) -> None:
        super().__init__()
        self.exit_report: dict[int, dict] = {}

    def handle(self, process, exit_report):
        self.exit_report[process.pid] = exit_report


@pytest.fixture
def watcher():
    with Recorder() as watcher:
        yield watcher


def send(watcher: Recorder, data: bytes) -> None:
    """This process is a client itself; what it sends has room in the socket."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(watcher.path)
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        watcher.answer()


def site(**changes) -> dict:
    weights = ("allocated", "live", "peak", "freed", "remote", "moved")
    lists = ("by_lifetime", "freed_on_node", "freed_by_heap", "frames")
    numbers = ("number", "samples", "variance", "live_variance", "waste", "live_waste")
    numbers += ("lifetimes", "longest")
    return {
        **{name: {"blocks": 1.5, "bytes": 1} for name in weights},
        **{name: [] for name in lists},
        **dict.fromkeys((*numbers, "freed_by_others"), 0),
        **changes,
    }


def block(**changes) -> dict:
    return {"address": 16, "site": 0, "blocks": 1, "bytes": 1, "variance": 0, **changes}


def test_a_profile_is_looked_at(watcher, capsys):
    send(watcher, json.dumps(EXIT_REPORT | {"sites": [site()], "blocks": [block()]}).encode())
    found = watcher.exit_report[os.getpid()]
    assert (found["pid"], found["user"]) == (os.getpid(), os.getuid()), "not what it says"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"\xff",
        b"[" * 100_000,
        json.dumps(EXIT_REPORT | {"own": 5}).encode(),
        json.dumps(EXIT_REPORT | {"own": [[1]]}).encode(),
        json.dumps(EXIT_REPORT | {"version": 2}).encode(),
        json.dumps(EXIT_REPORT | {"started": float("nan")}).encode(),
        json.dumps(EXIT_REPORT | {"sites": [{}]}).encode(),
        json.dumps(EXIT_REPORT | {"sites": [site(frames=["x"])]}).encode(),
        json.dumps(EXIT_REPORT | {"sites": [site(waste=-1)]}).encode(),
        json.dumps(EXIT_REPORT | {"sites": [site(moved_distance=-1)]}).encode(),
        json.dumps(EXIT_REPORT | {"sites": [site(remote_lifetimes="1")]}).encode(),
        json.dumps(EXIT_REPORT | {"blocks": [block()]}).encode(),
        json.dumps(EXIT_REPORT | {"sites": [site()], "blocks": [block(address=1 << 63)]}).encode(),
        json.dumps(EXIT_REPORT | {"modules": [{"file": "x"}]}).encode(),
    ],
    ids=lambda data: data[:12].decode(errors="replace") + f"…{len(data)}",
)
def test_what_is_no_profile_is_refused_and_the_next_one_looked_at(watcher, capsys, data):
    send(watcher, data)
    assert watcher.exit_report == {}
    said = capsys.readouterr().err
    assert said.startswith("nearmalloc: a process was not looked at: ") and said.count("\n") == 1
    assert "no profile" in said or "blocks of no site" in said
    send(watcher, GOOD)
    assert list(watcher.exit_report) == [os.getpid()]


def test_a_process_that_cannot_be_looked_at_ends_nothing(watcher, capsys, monkeypatch):
    def fail(*_):
        raise KeyError("x")

    monkeypatch.setattr(watcher, "handle", fail)
    send(watcher, GOOD)
    assert capsys.readouterr().err == "nearmalloc: a process was not looked at: 'x'\n"


def test_too_much_and_too_slow_is_refused(watcher, capsys, monkeypatch):
    monkeypatch.setattr(exit_report, "_MOST_BYTES", 100_000)
    send(watcher, GOOD + b" " * 100_000)
    assert "it sends more than 100,000 bytes" in capsys.readouterr().err
    monkeypatch.setattr(exit_report, "_MOST_SECONDS", 0.2)
    start = time.monotonic()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(watcher.path)
        silent.sendall(GOOD)
        watcher.answer()
    assert "timed out" in capsys.readouterr().err
    assert time.monotonic() < start + 10
    assert watcher.exit_report == {}


def test_an_answer_ends_while_others_come(watcher, monkeypatch):
    class Crowd:
        accepted = 0

        def accept(self):
            self.accepted += 1
            assert self.accepted < 1000
            ours, theirs = socket.socketpair()
            theirs.close()
            return ours, ""

    crowd = Crowd()
    watcher.listener.close()
    monkeypatch.setattr(watcher, "listener", crowd)
    monkeypatch.setattr(crowd, "close", lambda: None, raising=False)
    watcher.answer()
    assert 128 < crowd.accepted < 1000, "all that can wait, and then it returns"


_CLIENT = """
import os, socket, sys, time
if sys.argv[3] == "orphan":
    if os.fork():
        os._exit(0)
    os.setsid()
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.01)
print(os.getpid(), flush=True)
stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
stream.send(sys.argv[2].encode())
stream.shutdown(1)
stream.recv(1)
"""


def answer_client(watcher: Recorder, way: str, data: bytes = GOOD) -> int:
    """Answers a process of another user. Returns its number."""
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    words = [python, "-c", _CLIENT, watcher.path, data, way]
    with subprocess.Popen(words, stdout=subprocess.PIPE, user=NOBODY, group=NOBODY) as child:
        assert child.stdout
        pid = int(child.stdout.readline())
        end = time.monotonic() + 30
        while (state := Path(f"/proc/{pid}")).exists() and not _is_zombie(state):
            assert time.monotonic() < end, "it is not answered"
            watcher.answer()
            time.sleep(0.01)
    return pid


def _is_zombie(folder: Path) -> bool:
    try:
        return (folder / "stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


@AS_ROOT
def test_only_the_numbers_of_a_server_that_gave_up_root_are_believed(watcher, capsys):
    lies = [{"start": 0, "end": 9, "offset": 0, "build_id": "", "file": "/dev/zero"}]
    pid = answer_client(watcher, "child", json.dumps(EXIT_REPORT | {"modules": lies}).encode())
    found = watcher.exit_report[pid]
    assert (found["pid"], found["user"]) == (pid, NOBODY)
    files = {module["file"] for module in found["modules"]}
    assert "/dev/zero" not in files and any("libc.so" in file for file in files)
    assert capsys.readouterr().err == ""


@AS_ROOT
def test_processes_that_the_program_left_or_never_started_are_strangers(watcher, capsys):
    """Each user could fill the terminal of root, so only the first one is named."""
    pids = [answer_client(watcher, "orphan") for _ in range(3)]
    assert watcher.exit_report == {}
    assert capsys.readouterr().err == (
        f"nearmalloc: a process was not looked at: process {pids[0]} is another user's, and not of "
        "the program; others of that kind are not named\n"
    )


def test_code_is_believed_if_its_file_is_roots_or_ours(tmp_path):
    """The code that a process loaded, as the kernel lists it."""
    library = tmp_path / "libother.so"
    (tmp_path / "other.c").write_text("int other;", encoding="ascii")
    build = ["cc", "-shared", "-Wl,--build-id", "other.c", "-o", library]
    subprocess.run(build, cwd=tmp_path, check=True)
    script = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, library],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout
        child.stdout.readline()

        def listed() -> list[dict]:
            found = code.modules(Process(child.pid))
            assert any("libc.so" in each["file"] for each in found)
            return [each for each in found if each["file"] == str(library)]

        (module,) = listed()
        assert module["start"] < module["end"] and module["build_id"]
        if os.getuid() == 0:
            os.chown(library, NOBODY, NOBODY)
            assert listed() == []
        library.unlink()
        os.mkfifo(library)  # to open it would wait for a writer
        assert listed() == []
        process = Process(child.pid)
        ours = [each for each in process.files() if each.path == str(library)]
        assert len(ours) == 1 and find_symbol(process, "near_layout", ours) is None
        library.unlink()
        for forged in (b"", b"\x7fELF\x02\x01\x01" + b"\xff" * 100 + b"near_layout\0"):
            library.write_bytes(forged)
            assert find_symbol(process, "near_layout", ours) is None
        child.communicate()


def test_a_report_has_the_newest_events_and_names_that_do_not_control_the_terminal():
    summary = EXIT_REPORT | {"blocks": []}
    said = report.text(summary, [], "server\x1b[2J\n", ["1.0 s ago: it spilled"] * 9)
    first, *events = said.splitlines()
    assert first == "server?[2J? (1): none of 0 sampled blocks is leaked"
    assert events == ["  1.0 s ago: it spilled"] * 5


def test_the_events_of_a_report_are_troubles():
    census = Census(1, "x", 0)
    census.events = [OfEvent(kind, 0, 0, 1.0, 4096) for kind in EVENT_KINDS]
    found = " ".join(events_of(census, command._TROUBLES))
    assert "refused to bind" in found and "double free" in found and "could not" in found
    assert "grew" not in found and "back" not in found
    assert len(events_of(census)) == len(EVENT_KINDS)


def test_the_folders_that_root_opens_have_only_the_socket(tmp_path):
    """Whatever the umask. The profiles lie in another folder, which is closed."""
    script = (
        "import os, stat\n"
        "kept, at_exit = os.environ['NEARMALLOC_PROFILE_FILE'].split(',')\n"
        "blocks = [bytes(3000) for _ in range(1000)]\n"
        "files, socket = (os.path.dirname(each.split(':')[1]) for each in (kept, at_exit))\n"
        "modes = [oct(stat.S_IMODE(os.stat(each).st_mode)) for each in (files, socket)]\n"
        "print(*modes, *os.listdir(socket), files.startswith(socket), socket.startswith(files))\n"
    )
    words = ["--interval", "1000", "--", sys.executable, "-c", script]
    result = subprocess.run(
        [sys.executable, "-m", "nearmalloc_tools", "profile", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        umask=0,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    opened = "0o711" if os.getuid() == 0 else "0o700"
    assert result.stdout.split() == ["0o700", opened, "at-exit", "False", "False"]
