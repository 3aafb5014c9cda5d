"""Reads a profile in pprof's format: messages of protocol buffers, by the numbers of profile.proto.

Thread-safety: any thread.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from preload import program


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            yield key >> 3, value
        else:
            assert key & 7 == 2, f"type {key & 7} at {at} of {len(data)}"
            length, at = varint(data, at)
            assert at + length <= len(data), "a field is longer than its message"
            yield key >> 3, data[at:at + length]
            at += length


def numbers(data: bytes) -> list[int]:
    """A packed list."""
    out, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        out.append(value)
    return out


class Pprof:
    """A profile as pprof reads it, by the numbers of profile.proto."""

    def __init__(self, data: bytes) -> None:
        every = list(fields(data))
        self.strings = [bytes(value).decode() for field, value in every if field == 6]
        self.types = [self.strings[dict(fields(value))[1]] for field, value in every if field == 1]
        self.samples = []
        for field, value in every:
            if field == 2:
                parts = dict(fields(value))
                self.samples.append((numbers(parts.get(1, b"")), numbers(parts[2])))
        self.mappings = [dict(fields(value)) for field, value in every if field == 3]
        self.locations = [dict(fields(value)) for field, value in every if field == 4]
        self.period = dict(every)[12]

    def sum_of(self, name: str) -> int:
        return sum(values[self.types.index(name)] for _, values in self.samples)


def top(path: Path, index: str) -> str:
    """What `go tool pprof` prints of a profile's largest sites, by that type of sample."""
    done = subprocess.run([program("go"), "tool", "pprof", "-top", f"-sample_index={index}", path],
                          env=os.environ | {"GOTOOLCHAIN": "local",
                                            "PPROF_TMPDIR": str(path.parent)},
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
