#!/usr/bin/env python3
"""Servers of Debian run under the profiler: they answer as they do without it, and the profile that
they leave names the code that made the memory which the clients caused.

Redis and PostgreSQL write their titles over their environment, where the profile's name was.
"""

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
from collections.abc import Callable
from pathlib import Path

from preload import LIBRARY, PreloadTest, Result, count, environment, main, program, run

INTERVAL = 8192
BLOCK = 20_000
REQUESTS = 300
ALL = BLOCK * REQUESTS
PYTHON = f"""
import http.server, signal, socketserver, sys
kept = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kept.append(bytes({BLOCK}))
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


def share(profile: str, name: str) -> int:
    """The bytes of the stacks that have a function of this name."""
    lines = [line.rsplit(" ", 1) for line in profile.splitlines()]
    return sum(int(size) for stack, size in lines if name in stack.split(";"))


def wrote_over_it(pid: int) -> bool:
    """The memory where the process got its environment does not have the profile's name now."""
    try:
        return b"PROFILE_FILE=" not in Path(f"/proc/{pid}/environ").read_bytes()
    except ProcessLookupError:  # it has just ended
        return True


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


class ProfiledServer(PreloadTest):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="near-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        self.profiles = self.folder / "profiles"
        self.profiles.mkdir()
        # A server that gives up root may not be allowed to read the folder of the build.
        self.library = shutil.copy(LIBRARY.resolve(), self.folder)
        self.socket = self.folder / "socket"

    def serve(self, command: list[str], is_ready: Callable[[], bool]) -> subprocess.Popen[bytes]:
        """Starts a server under the profiler."""
        extra = {"NEARMALLOC_PROFILE": "on", "NEARMALLOC_PROFILE_FORMAT": "collapsed",
                 "NEARMALLOC_PROFILE_INTERVAL": str(INTERVAL),
                 "NEARMALLOC_PROFILE_FILE": f"{self.profiles}/%p"}
        variables = environment(True, extra, summary=False) | {"LD_PRELOAD": self.library}
        self.errors = (self.folder / "errors").open("w+b")
        self.addCleanup(self.errors.close)
        process = subprocess.Popen(command, env=variables, cwd=self.folder,
                                   stdout=self.errors, stderr=self.errors)
        self.addCleanup(self.end, process)
        end = time.monotonic() + 30
        while not is_ready() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        self.assertIsNone(process.poll(), self.said())
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
            process.wait()

    def said(self) -> str:
        return (self.folder / "errors").read_text(errors="replace")[-2000:]

    def stop(self, process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> str:
        """The profile of a server after its normal end."""
        process.send_signal(number)
        self.assertEqual(process.wait(30), 0, self.said())
        self.assertNotIn("nearmalloc:", self.said())
        count()
        return (self.profiles / str(process.pid)).read_text(encoding="utf-8")

    def assert_shown(self, profile: str, name: str, least: int, most: int) -> None:
        found = share(profile, name)
        self.assertLess(0.75 * least, found, f"{name} made {found} bytes")
        self.assertLess(found, 1.25 * most, f"{name} made {found} bytes")
        count()


class Redis(ProfiledServer):
    def ask(self, *words: str, stdin: bytes = b"") -> Result:
        return run([program("redis-cli"), "-s", self.socket, *words], preload=False, stdin=stdin)

    def test_redis(self) -> None:
        command = [program("redis-server"), "--port", "0", "--unixsocket", str(self.socket),
                   "--dir", str(self.folder), "--save", ""]
        process = self.serve(command, self.socket.exists)
        self.assertTrue(wrote_over_it(process.pid), "this Redis keeps its environment")
        keys = b"".join(b"set key:%d %s\n" % (i, b"v" * BLOCK) for i in range(REQUESTS))
        self.assert_good(self.ask(stdin=keys))
        self.assertEqual(self.ask("strlen", "key:7").out, b"%d\n" % BLOCK)
        self.assertEqual(self.ask("dbsize").out, b"%d\n" % REQUESTS)
        profile = self.stop(process)
        # A value is copied from a buffer that the connection reads into.
        self.assert_shown(profile, "readQueryFromClient", ALL, 4 * ALL)
        self.assert_shown(profile, "main", ALL, 20 * ALL)


class PostgreSQL(ProfiledServer):
    def setUp(self) -> None:
        super().setUp()
        found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
        if not found:
            raise unittest.SkipTest("PostgreSQL is not installed")
        self.bin = Path(found[0]).parent
        self.user = []
        if os.getuid() == 0:  # PostgreSQL refuses root
            self.user = [program("setpriv"), "--reuid", "postgres", "--regid", "postgres",
                         "--clear-groups"]
            owner = pwd.getpwnam("postgres")
            for folder in (self.folder, self.profiles):
                os.chown(folder, owner.pw_uid, owner.pw_gid)

    def ask(self, *words: str, stdin: bytes = b"") -> Result:
        return run([self.bin / "psql", "-h", self.folder, "-U", "postgres", "-At", *words],
                   preload=False, stdin=stdin)

    def test_postgresql(self) -> None:
        made = run([*self.user, self.bin / "initdb", "-D", "data", "-U", "postgres", "-A", "trust",
                    "-N", "--locale=C.UTF-8"], preload=False, cwd=self.folder)
        self.assert_good(made)
        command = [*self.user, str(self.bin / "postgres"), "-D", "data", "-k", str(self.folder),
                   "-c", "listen_addresses=", "-c", "fsync=off"]
        process = self.serve(command, lambda: self.ask("-c", "select 1").status == 0)
        first = int(self.ask("-c", "select pg_backend_pid()").out)
        asked = self.ask("-c", "select pg_backend_pid()", *(
            word for query in SQL.strip().splitlines() for word in ("-c", query)))
        self.assert_good(asked)
        lines = asked.out.decode().splitlines()
        self.assertEqual(lines[-2:], [f"{REQUESTS}|{ALL}", f"{ALL}"])
        others = children(process.pid)
        self.assertGreaterEqual(len(others), 3, "the writers and the launcher")
        self.assertTrue(all(map(wrote_over_it, others)), "PostgreSQL keeps its environment")
        main_profile = self.stop(process, signal.SIGINT)
        self.assert_shown(main_profile, "PostmasterMain", 100_000, 50_000_000)
        self.assertGreater((self.profiles / str(first)).stat().st_size, 0)
        # Each connection has a process of its own. It began with what the main process had.
        backend = (self.profiles / lines[0]).read_text(encoding="utf-8")
        # string_agg makes one string, in a buffer that doubles.
        self.assert_shown(backend, "PostgresMain", 2 * ALL, 30 * ALL)


class Interpreters(ProfiledServer):
    def get(self) -> str:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.socket))
            stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
            parts = []
            while part := stream.recv(65536):
                parts.append(part)
        return b"".join(parts).decode().split("\r\n\r\n")[1]

    def profile_of(self, command: list[str]) -> str:
        process = self.serve([*command, str(self.socket)], self.socket.exists)
        for number in range(1, REQUESTS + 1):
            self.assertEqual(self.get(), f"answer {number}")
        return self.stop(process)

    def test_python(self) -> None:
        profile = self.profile_of([sys.executable, "-c", PYTHON])
        self.assert_shown(profile, "PyBytes_FromStringAndSize", 0, 3 * ALL)
        self.assert_shown(profile, "_PyEval_EvalFrameDefault", ALL, 10 * ALL)

    def test_node(self) -> None:
        profile = self.profile_of([program("node"), "-e", NODE])
        # Its main function is on the stacks, below code that was compiled while it ran.
        self.assert_shown(profile, "_ZN4node5StartEiPPc", ALL, 20 * ALL)


if __name__ == "__main__":
    if sys.argv[1:] == ["PostgreSQL"] and not glob.glob("/usr/lib/postgresql/*/bin/postgres"):
        sys.exit(77)
    main()
