"""A conservative scan: which blocks can a program still reach?

Each word of 8 bytes that has an address inside a block counts as a pointer to it. What the roots
point to is reachable, and what reachable blocks point to. So a block that is reported has no
pointer to it in any word that was scanned; a word that only looks like a pointer can hide a leak.
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import coo_matrix  # type: ignore[import-untyped]  # no types
from scipy.sparse.csgraph import breadth_first_order  # type: ignore[import-untyped]  # no types

from nearmalloc_tools.leaks.roots import Range
from nearmalloc_tools.top.blocks import Blocks
from nearmalloc_tools.top.process import Process, Refused

_PART = 64 << 20  # bytes that are read at once
_PAGE = 4096


def _words(process: Process, where: Range) -> Iterator[tuple[int, np.ndarray]]:
    """The words of a range, in parts. Pages that cannot be read are left out."""
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
            yield from _words(process, (at, half))
            yield from _words(process, (half, at + size))
            at += size
            continue
        yield at, np.frombuffer(raw[: size // 8 * 8], np.dtype("<i8"))
        at += size


class Scan:
    """Of each block of a stopped process: can it be reached from the roots?"""

    def __init__(self, process: Process, blocks: Blocks, roots: list[Range], registers: bytes):
        self._blocks, self._process = blocks, process
        self._live = ~blocks.free()
        reached = [self._targets(np.frombuffer(registers, np.dtype("<i8")))[1]]
        for each in roots:
            reached.extend(self._targets(words)[1] for _, words in _words(process, each))
        self._from, self._to = self._edges()
        self.reachable = self._reach(np.unique(np.concatenate(reached)))
        lost = ~self.reachable[self._from] & (self._from != self._to)
        self.held_by_lost = np.zeros(blocks.count, bool)
        self.held_by_lost[self._to[lost]] = True

    def _targets(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Indices of words that point into live blocks, and the blocks' numbers."""
        blocks = self._blocks
        if not len(blocks.start):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        end = blocks.start[-1] + blocks.bytes[-1]
        where = np.flatnonzero((words >= blocks.start[0]) & (words < end))
        numbers = blocks.numbers(words[where])
        good = numbers >= 0
        good[good] = self._live[numbers[good]]
        return where[good], numbers[good]

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of live blocks of which the first points to the second."""
        sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for each in self._blocks.ranges():
            for address, words in _words(self._process, each):
                where, numbers = self._targets(words)
                source = self._blocks.numbers(address + 8 * where)
                good = source >= 0
                good[good] = self._live[source[good]]
                sources.append(source[good])
                targets.append(numbers[good])
        return np.concatenate(sources), np.concatenate(targets)

    def _reach(self, roots: np.ndarray) -> np.ndarray:
        count = self._blocks.count
        source = np.concatenate((self._from, np.full(len(roots), count)))
        target = np.concatenate((self._to, roots))
        graph = coo_matrix(
            (np.ones(len(source), np.int8), (source, target)), shape=(count + 1, count + 1)
        )
        graph.sum_duplicates()
        graph.data[:] = 1
        out = np.zeros(count + 1, bool)
        out[breadth_first_order(graph.tocsr(), count, return_predecessors=False)] = True
        return out[:count]
