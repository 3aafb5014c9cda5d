"""The blocks of an allocator at one moment: which block an address belongs to, and which are free.

Blocks are numbered from 0 on in the order of their addresses. Invariant: `first[i]` is the number
of the first block of span i, and spans do not overlap.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from nearmalloc_tools.top.census import LINK_BITS, Reader, Span, uncarved_blocks, used_slices

_LINK_REACH = 1 << 21
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
    """All blocks of a process. The lists have an element for each span."""

    def __init__(self, reader: Reader) -> None:
        self._reader, at = reader, reader.layout
        self.slice_bytes = at["slice.bytes"]
        found: list[tuple[Span, int]] = []  # with the address of the descriptor
        for run in reader.runs():
            for index in used_slices(run):
                if run.kinds[index] in (at["span.blocks"], at["span.large"]):
                    span = reader.span(run, index)
                    if span.kind == at["span.large"] or span.class_ < len(reader.sizes):
                        found.append((span, run.address + index * at["span.bytes"]))
        found.sort(key=lambda each: each[0].start)
        self._spans = [span for span, _ in found]
        self._places = [place for _, place in found]
        self._measure()

    def _measure(self) -> None:
        at, spans, sizes = self._reader.layout, self._spans, self._reader.sizes
        # A large block may begin behind the start of its slice.
        self.offset = [span.start % at["slice.bytes"] for span in spans]
        self.start = [span.start - span.start % at["slice.bytes"] for span in spans]
        self.bytes = [span.slices * at["slice.bytes"] for span in spans]
        self.large: list[bool] = []
        self.sampled: list[bool] = []
        self.size: list[int] = []
        counts: list[int] = []
        for span, size, offset in zip(spans, self.bytes, self.offset, strict=True):
            large = span.kind == at["span.large"]
            sampled = large and span.sampled == at["sampled.blocks"]
            self.large.append(large and not sampled)
            self.sampled.append(sampled)
            # `asked` of a span of sampled blocks: the bytes that were handed out.
            self.size.append(size - offset if self.large[-1] else sizes[span.class_])
            counts.append((span.asked if sampled else size) // self.size[-1])
        self.first = [0, *accumulate(counts)]
        self.count = self.first[-1]

    def span_of(self, address: int) -> int | None:
        """The index of the span that has the address."""
        span = bisect_right(self.start, address) - 1
        return span if span >= 0 and address < self.start[span] + self.bytes[span] else None

    def number(self, address: int) -> int:
        """The number of the block that has the address; -1 if none has it."""
        span = bisect_right(self.start, address) - 1
        return self.number_in(span, address) if span >= 0 else -1

    def number_in(self, span: int, address: int) -> int:
        """The same, if it is a block of that span."""
        offset = address - self.start[span] - self.offset[span]
        number = self.first[span] + offset // self.size[span]
        return number if offset >= 0 and number < self.first[span + 1] else -1

    def numbers(self, addresses: Iterable[int]) -> list[int]:
        return [self.number(address) for address in addresses]

    def start_of(self, number: int) -> int:
        """The address of a block."""
        span = self.span_with(number)
        begin = self.start[span] + self.offset[span]
        return begin + (number - self.first[span]) * self.size[span]

    def span_with(self, number: int) -> int:
        """The index of the span that has the block of that number."""
        return bisect_right(self.first, number) - 1

    def free(self) -> bytearray:
        """For each block whether it is free: 0 or 1. Those in magazines count as live."""
        out = bytearray(self.count)
        for span in range(len(self._spans)):
            if self.large[span]:
                continue
            heads = [self._spans[span].local]
            if not self.sampled[span]:
                heads = self._heads(span)
                self._mark_uncarved(span, out)
            if any(head & 1 == 0 for head in heads):
                self._mark_lists(span, heads, out)
        return out

    def _mark_uncarved(self, span: int, out: bytearray) -> None:
        first = self.first[span]
        count = self.first[span + 1] - first
        for begin, end in uncarved_blocks(self._spans[span].uncarved, self.size[span], count):
            out[first + begin : first + end] = b"\1" * (end - begin)

    def _heads(self, span: int) -> list[int]:
        """Where the lists begin: of free blocks, and of blocks that other threads freed; odd:
        nowhere."""
        at, found = self._reader.layout, self._spans[span]
        is_hot = found.list != self._places[span] + at["span.local"]
        local = self._reader.process.number(found.list) if is_hot else found.local
        some = found.remote >> 16 & 0xFFFF
        return [local, self.start[span] + (found.remote & 0xFFFF) * _ALIGN if some else 1]

    def _mark_lists(self, span: int, heads: list[int], out: bytearray) -> None:
        """Follows lists of free blocks. A block that is on one already ends a list."""
        begin, size, first = self.start[span], self.size[span], self.first[span]
        count = self.first[span + 1] - first
        memory = self._reader.process.read(begin, self.bytes[span])
        ghost, after_ghost = self._ghost(span)
        key = self._reader.key
        for place in heads:
            while place & 1 == 0:
                if place == ghost:
                    place = after_ghost
                    if not place:
                        break
                index = (place - begin) // size
                if not 0 <= index < count or out[first + index]:
                    break
                out[first + index] = 1
                word = memory[place - begin : place - begin + 8]
                distance = (int.from_bytes(word, "little") ^ key) & LINK_BITS
                if distance >= _LINK_REACH:
                    break
                place ^= distance

    def _ghost(self, span: int) -> tuple[int, int]:
        """The address of a block on a list that is uncarved already, and of the next one; -1 and
        0: there is none."""
        word = 0 if self.sampled[span] else self._spans[span].asked
        ghost, after = word & 0xFFFF_FFFF, word >> 32
        begin = self.start[span] - 1
        return begin + ghost if ghost else -1, begin + after if after else 0

    def at(self, address: int, free: bytearray) -> Block | None:
        """The block that has the address; `free` is what free() said."""
        number = self.number(address)
        return None if number < 0 else self.block(number, free)

    def block(self, number: int, free: bytearray) -> Block:
        span = self.span_with(number)
        large, descriptor = self.large[span], self._spans[span]
        return Block(
            start=self.start_of(number),
            size=self.size[span],
            kind="large" if large else "sampled" if self.sampled[span] else "class",
            free=bool(free[number]),
            asked=descriptor.asked if large else 0,
            span=self._places[span],
            span_start=self.start[span],
            span_bytes=self.bytes[span],
            node=descriptor.node,
            owner=descriptor.owner,
        )
