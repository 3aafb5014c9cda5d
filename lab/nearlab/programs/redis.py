"""Redis: a server under the allocator, a fixed stream of commands, then redis-benchmark.

Invariant: the replies to the stream depend on the stream alone. Redis keeps nothing on disk.
Debian's Redis links jemalloc, see ServerProgram. 8 % of the server's time is spent in malloc.
Thread-safety: one thread.
"""

import hashlib
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import TIMEOUT_S, last_line
from nearlab.programs.server import ServerError, ServerProgram, ask, connect

_CHUNK = 400  # commands sent at a time
_DONE = b"$4\r\ndone\r\n"


class Redis(ServerProgram):
    name = "redis"
    title = "redis-benchmark"
    needs = {"redis-benchmark": "redis-tools", "redis-check-rdb": "redis-tools"}
    version = ("redis-benchmark", "--version")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._requests = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._requests = 30_000 if quick else 120_000
        self._chunks = list(_stream(50 if quick else 150))

    def server(self, folder: Path) -> Sequence[str | Path]:
        command: str | Path | None = shutil.which("redis-server")
        if command is None:
            # redis-check-rdb is the same program; it behaves by the name that it is called by.
            command = folder / "redis-server"
            command.symlink_to(shutil.which("redis-check-rdb") or "redis-check-rdb")
        return [
            *(command, "--port", "0", "--unixsocket", "socket"),
            *("--daemonize", "no", "--appendonly", "no", "--save", ""),
        ]

    def load(self, server: measure.Child, folder: Path) -> tuple[str, float]:
        path = folder / "socket"
        with connect(server, path) as connection:
            started = time.monotonic()
            answer = _replay(connection, self._chunks)
            self._benchmark(path)
            ended = time.monotonic()
            _expect_no_errors(connection)
        return answer, ended - started

    def _benchmark(self, path: Path) -> None:
        """Three sizes over one key space, so that values change in size; lists, hashes, reads."""
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
                raise ServerError(
                    f"redis-benchmark: {rows} of {wanted} tests{last_line(done.stderr)}"
                )


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
    """Sends the stream; returns the digest of all replies."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(ask(connection, chunk, _DONE))
    return digest.hexdigest()


def _expect_no_errors(connection: socket.socket) -> None:
    info = ask(connection, _command("INFO", "stats") + _command("ECHO", "done"), _DONE)
    if b"total_error_replies:" in info and b"total_error_replies:0\r\n" not in info:
        raise ServerError("the server replied with errors")
