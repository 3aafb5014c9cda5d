"""A conservative scan: which blocks can a program still reach?

Each word of 8 bytes that has an address inside a block counts as a pointer to it. What the roots
point to is reachable, and what reachable blocks point to. So a block that is reported has no
pointer to it in any word that was scanned; a word that only looks like a pointer can hide a leak.
"""

import re
from array import array
from collections.abc import Iterable, Iterator

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.leaks.roots import Range
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.process import Process

_PART = 1 << 20  # bytes that are read at once
_PAGE = 4096


def _parts(process: Process, where: Range) -> Iterator[tuple[int, bytes]]:
    """The memory of a range, in parts. Pages that cannot be read are left out."""
    at, end = where
    while at < end:
        size = min(_PART, end - at)
        try:
            raw = process.read(at, size)
        except Refused:
            if size <= _PAGE:
                at += size
                continue
            half = at + max(size // 2 // _PAGE, 1) * _PAGE
            yield from _parts(process, (at, half))
            yield from _parts(process, (half, at + size))
            at += size
            continue
        yield at, raw[: size // 8 * 8]
        at += size


class _Pointers:
    """Finds words that lie in a range of addresses.

    Most words do not: the highest byte that is not 0 in all of the range is compared first, for
    many words by one search.
    """

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high
        self._byte = (max(high - 1, 0).bit_length() - 1) // 8 if high > 1 else 0
        values = range(low >> 8 * self._byte, (high - 1 >> 8 * self._byte) + 1)
        self._find = re.compile(b"[%s]" % b"".join(b"\\x%02x" % value for value in values))

    def find(self, raw: bytes) -> Iterator[tuple[int, int]]:
        """The offsets of such words, and the words."""
        words = memoryview(raw).cast("Q")
        low, high = self._low, self._high
        for found in self._find.finditer(raw[self._byte :: 8]):
            word = words[found.start()]
            if low <= word < high:
                yield 8 * found.start(), word


class Scan:
    """Of each block of a stopped process: can it be reached from the roots?"""

    def __init__(
        self, process: Process, blocks: Blocks, roots: Iterable[Range], registers: bytes
    ) -> None:
        self._blocks, self._process = blocks, process
        self.reachable = bytearray(blocks.count)  # 1: it is
        self.held_by_lost = bytearray(blocks.count)  # 1: an unreachable block points to it
        if blocks.count == 0:
            return
        self._pointers = _Pointers(blocks.start[0], blocks.start[-1] + blocks.bytes[-1])
        self._free = blocks.free()
        slice_bytes = blocks.slice_bytes
        self._span_of_slice = {
            slice_: span
            for span, (start, size) in enumerate(zip(blocks.start, blocks.bytes, strict=True))
            for slice_ in range(start // slice_bytes, (start + size) // slice_bytes)
        }
        found = self._targets(registers)
        for each in roots:
            for _, raw in _parts(process, each):
                found |= self._targets(raw)
        # The edges, by their sources; `_edges_of` has the index of a source's first one, plus 1.
        self._sources, self._held = array("Q"), array("Q")
        self._edges_of = array("Q", bytes(8 * blocks.count))
        for span in range(len(blocks.start)):
            self._add_edges(span)
        self._sources.append(blocks.count)  # it ends the last source's edges
        self._reach(found)
        for source, target in zip(self._sources, self._held, strict=False):
            if not self.reachable[source] and source != target:
                self.held_by_lost[target] = 1

    def _target(self, word: int) -> int:
        """The number of the block into which a word points; -1: none."""
        span = self._span_of_slice.get(word // self._blocks.slice_bytes)
        return -1 if span is None else self._blocks.number_in(span, word)

    def _targets(self, raw: bytes) -> set[int]:
        """The blocks into which words point."""
        return {self._target(word) for _, word in self._pointers.find(raw)} - {-1}

    def _add_edges(self, span: int) -> None:
        """The pairs of blocks of which the first is live, in the span, and points to the second. A
        free block makes nothing reachable."""
        blocks, free = self._blocks, self._free
        first, end = blocks.first[span], blocks.first[span + 1]
        if free.find(0, first, end) < 0:
            return
        start, size = blocks.start[span], blocks.size[span]
        begin = start + blocks.offset[span]
        for address, raw in _parts(self._process, (start, start + blocks.bytes[span])):
            for offset, word in self._pointers.find(raw):
                source = first + (address + offset - begin) // size
                if not first <= source < end or free[source]:
                    continue
                target = self._target(word)
                if target >= 0:
                    if not self._edges_of[source]:
                        self._edges_of[source] = len(self._sources) + 1
                    self._sources.append(source)
                    self._held.append(target)

    def _reach(self, roots: set[int]) -> None:
        reachable, sources, held, edges_of = (
            self.reachable,
            self._sources,
            self._held,
            self._edges_of,
        )
        stack = list(roots)
        for root in roots:
            reachable[root] = 1
        while stack:
            source = stack.pop()
            if edge := edges_of[source]:
                edge -= 1
                while sources[edge] == source:
                    target = held[edge]
                    edge += 1
                    if not reachable[target]:
                        reachable[target] = 1
                        stack.append(target)
