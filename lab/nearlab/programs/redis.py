"""Redis: a server under the allocator, a fixed stream of commands, then redis-benchmark.

Invariant: the replies to the stream depend on the stream alone; the server ends with the run,
whatever happens. It listens on a socket in a private folder and keeps nothing on disk.
Debian's Redis links jemalloc: for the system's malloc, libc itself is preloaded, so that its malloc
comes first. Memory and CPU time are the server's, the time is that of the clients' work.
8 % of the server's time is spent in malloc. Touched by: the demo, one thread.
"""

import contextlib
import hashlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import measure
from ..peers import Allocator
from .base import TIMEOUT_S, Program, Run, last_line

_START_S = 15.0
_CHUNK = 400  # commands sent at a time
_DONE = b"$4\r\ndone\r\n"


class RedisError(RuntimeError):
    """The server or its client did not do what was asked."""


class Redis(Program):
    name = "redis"
    title = "redis-benchmark"
    needs = {"redis-benchmark": "redis-tools", "redis-check-rdb": "redis-tools"}
    version = ("redis-benchmark", "--version")

    def __init__(self):
        self._chunks: list[bytes] = []
        self._requests = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._requests = 30_000 if quick else 120_000
        self._chunks = list(_stream(50 if quick else 150))

    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        # A socket's path has at most 107 bytes, so it is not below the build folder.
        with tempfile.TemporaryDirectory(prefix="near-redis-") as folder:
            with measure.start_child(
                _server_command(Path(folder)),
                preload=allocator.library or "libc.so.6",
                env=env,
                cwd=folder,
                timeout=TIMEOUT_S,
            ) as server:
                return self._load(server, Path(folder) / "socket")

    def _load(self, server: measure.Child, path: Path) -> Run:
        complaint = None
        answer = ""
        started = ended = time.monotonic()
        try:
            with _connect(server, path) as connection:
                started = time.monotonic()
                answer = _replay(connection, self._chunks)
                self._benchmark(path)
                ended = time.monotonic()
                _expect_no_errors(connection)
        except (RedisError, OSError, subprocess.SubprocessError) as error:
            complaint = str(error)
        server.terminate()
        sample = server.wait()
        if sample.failure():
            complaint = f"server: {sample.failure()}{last_line(sample.stderr)}"
        return Run(sample, ended - started, answer, complaint)

    def _benchmark(self, path: Path) -> None:
        """Three sizes over one key space, so that values change theirs; lists, hashes, reads."""
        common = [
            "redis-benchmark",
            "-s",
            str(path),
            "-c",
            "20",
            "-P",
            "16",
            "-n",
            str(self._requests),
            "--csv",
        ]
        for tests in (
            ["-r", "20000", "-d", "48", "-t", "set,get,lpush,hset,zadd"],
            ["-r", "20000", "-d", "700", "-t", "set,lpop"],
            ["-r", "20000", "-d", "2600", "-t", "set,get"],
        ):
            done = subprocess.run(
                [*common, *tests], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
            )
            wanted = len(tests[-1].split(","))
            rows = sum(
                line.startswith('"') and '"test"' not in line for line in done.stdout.splitlines()
            )
            if done.returncode != 0 or rows < wanted:
                raise RedisError(
                    f"redis-benchmark: {rows} of {wanted} tests{last_line(done.stderr)}"
                )


def _server_command(folder: Path) -> list[str | Path]:
    server = shutil.which("redis-server")
    if server is None:
        # The same program under another name; it looks at the name it was called by.
        server = folder / "redis-server"
        server.symlink_to(shutil.which("redis-check-rdb") or "redis-check-rdb")
    return [
        *(server, "--port", "0", "--unixsocket", "socket"),
        *("--daemonize", "no", "--appendonly", "no", "--save", ""),
    ]


@contextlib.contextmanager
def _connect(server: measure.Child, path: Path) -> Iterator[socket.socket]:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    deadline = time.monotonic() + _START_S
    with connection:
        while True:
            try:
                connection.connect(str(path))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if not server.running() or time.monotonic() > deadline:
                    raise RedisError("the server did not start") from None
                time.sleep(0.02)
        yield connection


def _command(*words: str | int) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(
        b"$%d\r\n%s\r\n" % (len(part), part) for part in parts
    )


def _stream(chunks: int) -> Iterator[bytes]:
    """Commands over all types of values; each reply has one right value."""
    rng = random.Random(7)
    for _ in range(chunks):
        commands = [_command(*_any_words(rng)) for _ in range(_CHUNK)]
        yield b"".join([*commands, _command("ECHO", "done")])


def _any_words(rng: random.Random) -> tuple[str | int, ...]:
    key = rng.randrange(4000)
    size = rng.choice((8, 30, 90, 300, 1200, 9000))
    word = f"{key:x}." * (1 + size // 4)
    return rng.choice(
        (
            ("SET", f"s{key}", word),
            ("APPEND", f"s{key}", word[:200]),
            ("GET", f"s{key}"),
            ("DEL", f"s{key}", f"l{key % 90}"),
            ("RPUSH", f"l{key % 97}", word[:700], key),
            ("LRANGE", f"l{key % 97}", 0, 20),
            ("HSET", f"h{key % 61}", key, word[:500]),
            ("HGET", f"h{key % 61}", key),
            ("SADD", f"m{key % 31}", word[:60]),
            ("SCARD", f"m{key % 31}"),
            ("ZADD", f"z{key % 31}", size, word[:40]),
            ("ZRANGE", f"z{key % 31}", 0, 10),
        )
    )


def _replay(connection: socket.socket, chunks: list[bytes]) -> str:
    """Sends the stream; the digest of all replies."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(_ask(connection, chunk))
    return digest.hexdigest()


def _ask(connection: socket.socket, commands: bytes) -> bytes:
    """The replies to commands that end with `ECHO done`."""
    connection.sendall(commands)
    reply = bytearray()
    while not reply.endswith(_DONE):
        part = connection.recv(1 << 20)
        if not part:
            raise RedisError("the server closed the connection")
        reply += part
    return bytes(reply)


def _expect_no_errors(connection: socket.socket) -> None:
    info = _ask(connection, _command("INFO", "stats") + _command("ECHO", "done"))
    if b"total_error_replies:" in info and b"total_error_replies:0\r\n" not in info:
        raise RedisError("the server replied with errors")
