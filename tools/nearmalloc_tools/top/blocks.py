"""The blocks of an allocator at one moment: which block an address belongs to, and which are free.

Blocks are numbered from 0 on in the order of their addresses. Invariant: `first[i]` is the number
of the first block of span i, and spans do not overlap.
"""

from dataclasses import dataclass

import numpy as np

from nearmalloc_tools.top.census import LINK_BITS, Reader

_LINK_REACH = 1 << 21
_PAGE = 4096
_ALIGN = 16  # of blocks


@dataclass(frozen=True)
class Block:
    """A block and the span that has it."""

    start: int
    size: int  # of its class; of a large one, its slices; of a sampled one, its cell
    kind: str  # "class", "large" or "sampled"
    free: bool
    asked: int  # bytes, of a large one; else 0
    span: int  # address of its descriptor
    span_start: int
    span_bytes: int
    node: int  # the allocator's number
    owner: int  # address of the heap; 0: none


class Blocks:
    """All blocks of a process."""

    def __init__(self, reader: Reader) -> None:
        self._reader, at = reader, reader.layout
        found: list[np.ndarray] = []
        places: list[np.ndarray] = []
        for run in reader.runs():
            kind, of_class = run.spans["kind"], run.spans["class"] < len(reader.shapes)
            blocks = (kind == at["span.blocks"]) & of_class
            used = ~reader.free_slices(run) & (blocks | (kind == at["span.large"]))
            where = np.flatnonzero(used)
            found.append(run.spans[where])
            places.append(run.address + where * at["span.bytes"])
        spans = np.concatenate(found) if found else np.empty(0, reader.spans)
        self._places = np.concatenate(places) if places else np.empty(0, np.int64)
        order = np.argsort(spans["start"])
        self._spans, self._places = spans[order], self._places[order]
        self._measure()

    def _measure(self) -> None:
        at, spans, shapes = self._reader.layout, self._spans, self._reader.shapes
        # A large block may begin behind the start of its slice.
        begin = spans["start"].astype(np.int64)
        self.offset = begin % at["slice.bytes"]
        self.start = begin - self.offset
        self.bytes = spans["slices"].astype(np.int64) * at["slice.bytes"]
        large = spans["kind"] == at["span.large"]
        self.sampled = large & (spans["sampled"] == at["sampled.blocks"])
        self.large = large & ~self.sampled
        of_class = np.where(self.large, 0, spans["class"]).astype(np.int64)
        of_large = self.bytes - self.offset
        self.size = np.where(self.large, of_large, shapes["size"][of_class].astype(np.int64))
        handed_out = spans["asked"].astype(np.int64) // np.maximum(self.size, 1)
        count = np.where(self.sampled, handed_out, self.bytes // self.size)
        self.first = np.concatenate(([0], np.cumsum(count)))
        self.count = int(self.first[-1])

    def ranges(self) -> list[tuple[int, int]]:
        """The memory of spans, neighbours together."""
        if not len(self.start):
            return []
        end = self.start + self.bytes
        new = np.flatnonzero(np.concatenate(([True], self.start[1:] != end[:-1])))
        last = np.concatenate((new[1:], [len(end)])) - 1
        return list(zip(self.start[new].tolist(), end[last].tolist(), strict=True))

    def numbers(self, addresses: np.ndarray) -> np.ndarray:
        """The number of the block that has each address; -1 if none has it."""
        if not len(self.start):
            return np.full(len(addresses), -1)
        span = np.searchsorted(self.start, addresses, "right") - 1
        inside = np.maximum(span, 0)
        index = (addresses - self.start[inside] - self.offset[inside]) // self.size[inside]
        number: np.ndarray = self.first[inside] + index
        number[(span < 0) | (index < 0) | (number >= self.first[inside + 1])] = -1
        return number

    def starts(self, numbers: np.ndarray) -> np.ndarray:
        span = np.searchsorted(self.first, numbers, "right") - 1
        begin = self.start[span] + self.offset[span]
        out: np.ndarray = begin + (numbers - self.first[span]) * self.size[span]
        return out

    def free(self) -> np.ndarray:
        """For each block whether it is free. Those in magazines count as live."""
        out = np.zeros(self.count, bool)
        self._mark_uncarved(out)
        for heads in (self._heads(), self._remote_heads()):
            self._mark_list(heads, out)
        return out

    def _mark_list(self, heads: np.ndarray, out: np.ndarray) -> None:
        """Follows the lists of all spans at once."""
        key = np.uint64(self._reader.key).astype(np.int64)
        span = np.flatnonzero(heads & 1 == 0)
        place = heads[span]
        while len(place):
            place, span = self._pass_ghosts(place, span)
            number = self.numbers(place)
            fits = (number >= self.first[span]) & (number < self.first[span + 1])
            number, place, span = number[fits], place[fits], span[fits]
            new = ~out[number]  # a block that is there already ends the list
            out[number] = True
            place, span = place[new], span[new]
            distance = (self._words(place) ^ key) & LINK_BITS
            place = place ^ distance
            going = (distance >= 0) & (distance < _LINK_REACH) & (place & 1 == 0)
            place, span = place[going], span[going]

    def _pass_ghosts(self, place: np.ndarray, span: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The next blocks, where a list leads through a block that is uncarved already."""
        word = self._spans["asked"][span].astype(np.int64)
        word[self.large[span] | self.sampled[span]] = 0
        ghost, next_block = word & 0xFFFF_FFFF, word >> 32
        is_ghost = (ghost != 0) & (place == self.start[span] + ghost - 1)
        place = np.where(is_ghost, self.start[span] + next_block - 1, place)
        going = ~is_ghost | (next_block != 0)
        return place[going], span[going]

    def _words(self, places: np.ndarray) -> np.ndarray:
        """The first word of each block; neighbouring pages are read together."""
        out = np.empty(len(places), np.int64)
        order = np.argsort(places)
        ordered = places[order]
        new = np.flatnonzero(np.concatenate(([True], np.diff(ordered) > _PAGE)))
        for begin, end in zip(new, np.concatenate((new[1:], [len(ordered)])), strict=True):
            here = ordered[begin:end]
            raw = self._reader.process.read(int(here[0]), int(here[-1] - here[0]) + 8)
            words = np.frombuffer(raw, np.dtype("<i8"))
            out[order[begin:end]] = words[(here - here[0]) // 8]
        return out

    def _heads(self) -> np.ndarray:
        """Where the list of free blocks of each span begins; odd: nowhere."""
        at, spans = self._reader.layout, self._spans
        heads = spans["local"].astype(np.int64)
        heads[self.large] = 1
        hot = spans["list"].astype(np.int64) != self._places + at["span.local"]
        for index in np.flatnonzero(hot & ~self.large & ~self.sampled):
            heads[index] = self._reader.process.number(int(spans["list"][index]))
        return heads

    def _remote_heads(self) -> np.ndarray:
        """The same of the lists of blocks that other threads freed."""
        word = self._spans["remote"].astype(np.int64)
        some = (word >> 16 & 0xFFFF > 0) & ~self.large & ~self.sampled
        return np.where(some, self.start + (word & 0xFFFF) * _ALIGN, 1)

    def _mark_uncarved(self, out: np.ndarray) -> None:
        of_class = ~self.large & ~self.sampled
        for index in np.flatnonzero(of_class & (self._spans["uncarved"] != 0)):
            first, end = int(self.first[index]), int(self.first[index + 1])
            blocks = np.arange(end - first)
            size = int(self.size[index])
            unit = blocks if size >= _PAGE else blocks * size // _PAGE
            out[first:end] |= (int(self._spans["uncarved"][index]) >> unit & 1).astype(bool)

    def span_of(self, address: int) -> int | None:
        """The index of the span that has the address."""
        span = int(np.searchsorted(self.start, address, "right")) - 1
        return span if span >= 0 and address < self.start[span] + self.bytes[span] else None

    def at(self, address: int, free: np.ndarray) -> Block | None:
        """The block that has the address; `free` is what free() said."""
        number = int(self.numbers(np.array([address]))[0])
        return None if number < 0 else self.block(number, free)

    def block(self, number: int, free: np.ndarray) -> Block:
        span = int(np.searchsorted(self.first, number, "right")) - 1
        large, row = bool(self.large[span]), self._spans[span]
        return Block(
            start=int(self.starts(np.array([number]))[0]),
            size=int(self.size[span]),
            kind="large" if large else "sampled" if self.sampled[span] else "class",
            free=bool(free[number]),
            asked=int(row["asked"]) if large else 0,
            span=int(self._places[span]),
            span_start=int(self.start[span]),
            span_bytes=int(self.bytes[span]),
            node=int(row["node"]),
            owner=int(row["owner"]),
        )
