"""Reads some numbers of a structure of another program: those of its fields that are asked for."""

import operator
import struct
from collections.abc import Iterator, Sequence


class Record:
    """A structure of `size` bytes. `fields`: the offset of each, and its letter as in `struct`.

    Invariant: the fields do not overlap.
    """

    def __init__(self, size: int, fields: Sequence[tuple[int, str]]) -> None:
        text, end = "<", 0
        order = sorted(fields)
        for offset, letter in order:
            text += f"{offset - end}x{letter}"
            end = offset + struct.calcsize(f"<{letter}")
        self._struct = struct.Struct(f"{text}{size - end}x")
        self._picked = operator.itemgetter(*(order.index(field) for field in fields))

    def one(self, data: bytes, index: int) -> tuple[int, ...]:
        """The fields, in the order that was asked for, of a structure in an array."""
        found: tuple[int, ...] = self._picked(
            self._struct.unpack_from(data, index * self._struct.size)
        )
        return found

    def all(self, data: bytes) -> Iterator[tuple[int, ...]]:
        """The same of all structures in an array."""
        return map(self._picked, self._struct.iter_unpack(data))
