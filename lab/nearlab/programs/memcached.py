"""memcached: four threads, a fixed stream of commands, then memcslap's sets and gets.

It is insensitive: memcached cuts items from slabs of a megabyte that it never returns. In a
thousand samples of it none was in malloc; three quarters were in the kernel.
Invariant: the replies to the stream depend on the stream alone; nothing is evicted, because the
store is large enough.
"""

import hashlib
import os
import pwd
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from nearlab.measure import measure
from nearlab.programs.base import which
from nearlab.programs.server import ServerProgram, ask, connect, run_client

_CHUNK = 400  # commands sent at a time
_DONE = b"MN\r\n"  # the reply to the command that does nothing


class Memcached(ServerProgram):
    name = "memcached"
    title = "sets and gets"
    needs = {"memcached": "memcached", "memcslap": "libmemcached-tools"}
    version = ("memcached", "-V")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._requests = 0

    def prepare(self, folder: Path, quick: bool) -> None:
        self._requests = 1500 if quick else 6000
        self._chunks = list(_stream(40 if quick else 150))

    def server(self, folder: Path) -> Sequence[str | Path]:
        user = pwd.getpwuid(os.geteuid()).pw_name  # memcached refuses to run as root without -u
        options = ("-s", "socket", "-U", "0", "-m", "512", "-t", "4", "-u", user)
        return [which("memcached") or "memcached", *options]

    def load(self, server: measure.Child, folder: Path) -> tuple[str, float]:
        digest = hashlib.sha256()
        with connect(server, folder / "socket") as connection:
            started = time.monotonic()
            for chunk in self._chunks:
                digest.update(ask(connection, chunk, _DONE))
            for test in ("set", "get"):
                run_client(
                    [
                        *("memcslap", f"--servers={folder / 'socket'}", f"--test={test}"),
                        *("--concurrency=8", f"--execute-number={self._requests}"),
                        "--quiet",
                    ]
                )
            return digest.hexdigest(), time.monotonic() - started


def _stream(chunks: int) -> Iterator[bytes]:
    """Commands over one key space, so that values change in size."""
    rng = random.Random(5)
    for _ in range(chunks):
        yield b"".join(_any_command(rng) for _ in range(_CHUNK)) + b"mn\r\n"


def _any_command(rng: random.Random) -> bytes:
    key = rng.randrange(5000)
    size = rng.choice((8, 40, 200, 900, 4000, 20000))
    value = (b"%x." % key) * (1 + size // 5)
    stored = b" key%d 0 0 %d\r\n%s\r\n" % (key, len(value), value)
    return rng.choice(
        (
            b"set" + stored,
            b"replace" + stored,
            b"append key%d 0 0 4\r\nmore\r\n" % key,
            b"get key%d key%d\r\n" % (key, key // 2),
            b"get key%d\r\n" % key,
            b"delete key%d\r\n" % key,
        )
    )
