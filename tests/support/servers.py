"""Servers that tests run under the allocator, ask, and look at: Redis, PostgreSQL, Python, Node,
and a program that is linked statically to the archive.

Each holds HELD bytes after `load`, which its answers prove. A tool that starts a program may start
the server.
Invariant: all processes of a server have ended when its `with` ends.
Thread-safety: one thread of each process test uses it.
"""

import contextlib
import ctypes
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import ClassVar, Self

from preload import LIBRARY, PROGRAMS, Result, environment, program, run

TOOLS = str(Path(__file__).parents[2] / "tools")
LEAKED = 23  # the status of ./near run --leaks
PR_SET_CHILD_SUBREAPER = 36
BLOCK = 20_000
REQUESTS = 300
HELD = BLOCK * REQUESTS
PYTHON = f"""
import ctypes, http.server, signal, socketserver, sys
kept = []
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kept.append(bytes({BLOCK}))
        if "lose" in self.path:
            libc.memset(libc.malloc(3000), 0, 3000)
        if "metrics" in self.path:
            stream = libc.fopen(b"metrics", b"w")
            libc.near_stats_openmetrics.argtypes = [ctypes.c_void_p]
            libc.near_stats_openmetrics(stream)
            libc.fclose(stream)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"answer %d" % len(kept))
    def address_string(self):
        return "client"
    def log_message(self, *words):
        pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
socketserver.ThreadingUnixStreamServer(sys.argv[1], Handler).serve_forever()
"""
NODE = f"""
const kept = [];
process.on('SIGTERM', () => process.exit(0));
require('http').createServer((request, response) => {{
  kept.push(Buffer.alloc({BLOCK}, 'x'));
  response.end(`answer ${{kept.length}}`);
}}).listen(process.argv[1]);
"""
SQL = f"""
create table t (n int, v text);
insert into t select n, repeat('v', {BLOCK}) from generate_series(1, {REQUESTS}) n;
select count(*), sum(length(v)) from t;
select length(string_agg(v, '')) from t;
"""
HOLD = f"""
set work_mem = '64MB';
select pg_backend_pid();
begin;
declare held cursor with hold for
  select repeat('v', {BLOCK}) from generate_series(1, {REQUESTS});
commit;
select 'held';
"""


def has_postgresql() -> bool:
    return bool(glob.glob("/usr/lib/postgresql/*/bin/postgres"))


def starts(command: str, *options: str) -> list[str]:
    """A command of `./near` that starts a program."""
    return [sys.executable, "-m", "nearmalloc_tools", command, *options, "--"]


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def descendants(pid: int) -> set[int]:
    """All processes that it started, those that they started, and so on."""
    found: set[int] = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found |= {int(each) for each in path.read_text(encoding="ascii").split()}
    return found.union(*map(descendants, found))


class Server:
    """A server on a Unix socket in a folder of its own.

    `options` is the rest of its environment. `tool` is a command of `./near` that starts it; then
    the library is not preloaded. In both, FOLDER means the server's.
    """

    end_signal: ClassVar[int] = signal.SIGTERM

    def __init__(self, *, preload: bool = True, tool: list[str] | None = None,
                 **options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.folder.chmod(0o755)
        self.socket = self.folder / "socket"
        # A server that gives up root may not be allowed to read the folder of the build.
        self.library = shutil.copy(LIBRARY.resolve(), self.folder)
        self.tool = [word.replace("FOLDER", str(self.folder)) for word in tool or []]
        self.variables = environment(preload and not tool, summary=False) | {
            name: value.replace("FOLDER", str(self.folder)) for name, value in options.items()}
        if tool:
            self.variables |= {"NEAR_PROGRAM": "./near", "NEAR_LIBRARY": self.library,
                               "PYTHONPATH": TOOLS}
        elif preload:
            self.variables["LD_PRELOAD"] = self.library

    def __enter__(self) -> Self:
        try:
            self.prepare()
            # What a process of the server leaves becomes a child of this one.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._others = descendants(os.getpid())
            with (self.folder / "errors").open("wb") as errors:
                self.process = subprocess.Popen(
                    [*self.tool, *self.command()], env=self.variables, cwd=self.folder,
                    stdout=errors, stderr=errors)
            try:
                self._wait()
            except BaseException:
                self._end()
                raise
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._remove()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while not self.is_ready():
            assert self.process.poll() is None, f"it did not start: {self.said()}"
            assert time.monotonic() < end, f"it is not ready: {self.said()}"
            time.sleep(0.05)

    def _end(self) -> None:
        """Kills what is left, also if the command or the main process has ended."""
        while left := descendants(os.getpid()) - self._others:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            for pid in left - {self.process.pid}:
                with contextlib.suppress(ChildProcessError):  # it is not a child, or not yet
                    os.waitpid(pid, 0)

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def prepare(self) -> None:
        """What is done once before the server starts."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self) -> bool:
        return self.socket.exists()

    def load(self) -> None:
        """Makes the server hold HELD bytes."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """Of the main process."""
        return children(self.process.pid)[0] if self.tool else self.process.pid

    def pids(self) -> list[int]:
        """All its processes, the main one first."""
        return [self.pid, *children(self.pid)]

    def holding(self) -> list[int]:
        """The processes that hold HELD bytes each."""
        return [self.pid]

    def said(self) -> str:
        return (self.folder / "errors").read_text(errors="replace")

    def stop(self) -> int:
        """Ends it as a user does. Returns the status of the command that started it."""
        os.kill(self.pid, self.end_signal)
        return self.process.wait(60)


class Redis(Server):
    def command(self) -> list[str]:
        return [program("redis-server"), "--port", "0", "--unixsocket", str(self.socket),
                "--dir", str(self.folder), "--save", ""]

    def ask(self, *words: str | Path, stdin: bytes = b"") -> bytes:
        result = run([program("redis-cli"), "-s", self.socket, *words], preload=False, stdin=stdin)
        assert result.status == 0, str(result)
        return result.out

    def load(self) -> None:
        self.ask(stdin=b"".join(b"set key:%d %s\n" % (i, b"v" * BLOCK) for i in range(REQUESTS)))
        assert self.ask("strlen", "key:7") == b"%d\n" % BLOCK
        assert self.ask("dbsize") == b"%d\n" % REQUESTS


class PostgreSQL(Server):
    """After `load`, two connections hold what they read; each has a process."""

    end_signal = signal.SIGINT

    def prepare(self) -> None:
        if not has_postgresql():
            raise unittest.SkipTest("PostgreSQL is not installed")
        self.bin = Path(glob.glob("/usr/lib/postgresql/*/bin/postgres")[0]).parent
        self.clients: list[subprocess.Popen[bytes]] = []
        self.backends: list[int] = []
        self.user = []
        if os.getuid() == 0:  # PostgreSQL refuses root
            self.user = [program("setpriv"), "--reuid", "postgres", "--regid", "postgres",
                         "--clear-groups"]
            owner = pwd.getpwnam("postgres")
            for path in (self.folder, *(each for each in self.folder.iterdir() if each.is_dir())):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        made = run([*self.user, self.bin / "initdb", "-D", "data", "-U", "postgres", "-A", "trust",
                    "-N", "--locale=C.UTF-8"], preload=False, cwd=self.folder)
        assert made.status == 0, str(made)

    def command(self) -> list[str]:
        # Workers of autovacuum come and go while the processes are listed.
        return [*self.user, str(self.bin / "postgres"), "-D", "data", "-k", str(self.folder),
                "-c", "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off"]

    def is_ready(self) -> bool:
        return self.ask("-c", "select 1").status == 0

    def _client(self, *words: str) -> list[str | Path]:
        return [self.bin / "psql", "-h", self.folder, "-U", "postgres", "-qAt", *words]

    def ask(self, *words: str) -> Result:
        return run(self._client(*words), preload=False)

    def ask_each(self, queries: str) -> list[str]:
        """The process of the connection, and the answers of all queries."""
        words = [word for query in queries.strip().splitlines() for word in ("-c", query)]
        asked = self.ask("-c", "select pg_backend_pid()", *words)
        assert asked.status == 0, str(asked)
        return asked.out.decode().splitlines()

    def load(self) -> None:
        for _ in range(2):
            client = subprocess.Popen([str(word) for word in self._client()], cwd=self.folder,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.clients.append(client)
            assert client.stdin and client.stdout
            client.stdin.write(HOLD.encode())
            client.stdin.flush()
            self.backends.append(int(client.stdout.readline()))
            assert client.stdout.readline() == b"held\n"
        assert set(self.backends) <= set(self.pids())

    def holding(self) -> list[int]:
        return self.backends

    def _leave(self) -> None:
        """Ends the connections, and waits until their processes have ended."""
        for client in self.clients:
            client.communicate()
        self.clients = []
        end = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in self.backends):
            assert time.monotonic() < end, "a process of a connection does not end"
            time.sleep(0.02)

    def stop(self) -> int:
        self._leave()
        return super().stop()

    def __exit__(self, *words: object) -> None:
        for client in self.clients:
            client.kill()
            client.communicate()
        super().__exit__(*words)


class _Http(Server):
    """A server that holds a block for each request."""

    def get(self, path: str = "/") -> str:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.socket))
            stream.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            parts = []
            while part := stream.recv(65536):
                parts.append(part)
        return b"".join(parts).decode().split("\r\n\r\n")[1]

    def is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as stream:  # it may not listen on its socket yet
            return self.socket.exists() and stream.connect_ex(str(self.socket)) == 0

    def load(self) -> None:
        for number in range(1, REQUESTS + 1):
            assert self.get("/lose") == f"answer {number}"


class Python(_Http):
    """It loses a block of 3000 bytes for each request of `load`. For /metrics it writes those that
    its allocator gives, to the file `metrics` of its folder."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", PYTHON, str(self.socket)]


class Node(_Http):
    def command(self) -> list[str]:
        return [program("node"), "-e", NODE, str(self.socket)]


class Static(_Http):
    """tests/process/programs/static_server.c: it loses a block of 3000 bytes for each request."""

    def command(self) -> list[str]:
        return [str(PROGRAMS / "static_server"), str(self.socket)]


ALL: tuple[type[Server], ...] = (Redis, PostgreSQL, Python, Node, Static)
