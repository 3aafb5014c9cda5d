"""Prints the commands that a server gets: in parts, each of which ends with a marker's command.

usage: streams.py redis|memcached PARTS. Invariant: the commands depend on the arguments alone, and
each reply to them has one right value. Values of one key space change in size.
"""

import random
import sys
from collections.abc import Iterator

_PART = 400  # commands


def _resp(*words: str | int) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(
        b"$%d\r\n%s\r\n" % (len(part), part) for part in parts
    )


def redis(parts: int) -> Iterator[bytes]:
    """Commands over all types of values."""
    rng = random.Random(7)
    for _ in range(parts):
        yield from (_resp(*_any_words(rng)) for _ in range(_PART))
        yield _resp("ECHO", "done")


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


def memcached(parts: int) -> Iterator[bytes]:
    rng = random.Random(5)
    for _ in range(parts):
        yield from (_any_command(rng) for _ in range(_PART))
        yield b"mn\r\n"


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


if __name__ == "__main__":
    commands = {"redis": redis, "memcached": memcached}[sys.argv[1]]
    sys.stdout.buffer.writelines(commands(int(sys.argv[2])))
