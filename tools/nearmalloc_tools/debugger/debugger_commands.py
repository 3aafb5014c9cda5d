"""Sentences about blocks, spans and heaps, for debuggers and `nearmalloc core`."""

from collections.abc import Collection

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.blocks import Block, Blocks
from nearmalloc_tools.top.census import EVENT_KINDS, Census, Reader

_SENTENCES = {
    "spill": "node {0.other} served what node {0.node} could not",
    "growth": "node {0.node} grew by {0.bytes} bytes",
    "purge": "node {0.node} gave {0.bytes} bytes back",
    "bind_refused": "the kernel refused to bind {0.bytes} bytes to node {0.node}",
    "error": "an invalid or double free, or a damaged free list, was detected",
}


def events_of(census: Census, kinds: Collection[str] = EVENT_KINDS) -> list[str]:
    """The rare events of these kinds that the process remembers, the newest first."""
    when = "s ago" if census.clocked else "s before the newest"
    return [
        f"{event.seconds_ago:.1f} {when}: {_SENTENCES[event.kind].format(event)}"
        for event in census.events
        if event.kind in kinds
    ]


class DebuggerCommands:
    """Reads a process once and answers."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._blocks = Blocks(reader)
        self._free = self._blocks.free()

    def block(self, address: int) -> list[str]:
        """The block that has the address, and its neighbours."""
        found = self._blocks.at(address, self._free)
        if found is None:
            return [self._elsewhere(address)]
        offset = address - found.start
        where = f"is {offset} bytes into" if offset else "is the start of"
        lines = [f"{address:#x} {where} {self._of(found)}"]
        lines.append(f"before: {self._beside(found, found.start - 1, found.span_start - 1)}")
        end = found.span_start + found.span_bytes
        lines.append(f"after: {self._beside(found, found.start + found.size, end)}")
        lines.append(self._span(found))
        return lines

    def _beside(self, block: Block, there: int, outside: int) -> str:
        """What is at the address `there`, and at `outside` if no block of the span is there."""
        if block.kind == "large":
            return self._at(outside)
        other = self._blocks.at(there, self._free)
        if other is not None and other.span == block.span:
            return self._of(other)
        in_span = block.span_start <= there < block.span_start + block.span_bytes
        between = "unused bytes of the span, then" if in_span else "outside the span,"
        return f"{between} {self._at(outside)}"

    def _at(self, address: int) -> str:
        span = self._blocks.span_of(address)
        if span is None:
            return self._in_no_span(address)
        if self._blocks.large[span]:  # a large block may begin behind the start of its span
            return self._of(self._blocks.block(self._blocks.first[span], self._free))
        if other := self._blocks.at(address, self._free):
            return self._of(other)
        size, start = self._blocks.size[span], self._blocks.start[span]
        return f"unused bytes of a span of blocks of {size} bytes at {start:#x}"

    def _in_no_span(self, address: int) -> str:
        bytes_of_slice = self._reader.layout["slice.bytes"]
        for run in self._reader.runs():
            index = (address - run.memory) // bytes_of_slice
            if not 0 <= index < len(run):
                continue
            if not run.free[index]:
                return "an empty span that a heap keeps"
            first = run.free.rfind(0, 0, index) + 1
            end = run.free.find(0, index)
            end = len(run) if end < 0 else end
            start = run.memory + first * bytes_of_slice
            return f"{(end - first) * bytes_of_slice} bytes of free memory at {start:#x}"
        return "memory that nearmalloc has not mapped"

    def span(self, address: int) -> list[str]:
        """The span that has the address, and how many of its blocks are free."""
        found = self._blocks.at(address, self._free)
        if found is None:
            return [self._elsewhere(address)]
        number = self._blocks.span_of(found.start)
        assert number is not None, "the span has a block"
        first, end = self._blocks.first[number : number + 2]
        free = self._free.count(1, first, end)
        return [
            self._span(found),
            f"{end - first} blocks of {found.size} bytes: {end - first - free} live, {free} free",
        ]

    def heaps(self) -> list[str]:
        """All heaps with their addresses."""
        at, process = self._reader.layout, self._reader.process
        lines = []
        for heap in self._reader.take().heaps:
            address = process.number(at.addresses["heaps"] + 8 * heap.number)
            thread = "" if heap.thread is None else f" by thread {heap.thread}"
            lines.append(
                f"heap {heap.number} at {address:#x}: node {heap.node}, {heap.state}{thread}, "
                f"{heap.refills} slow paths of malloc, {heap.span_events} of free, "
                f"{heap.remote_blocks} blocks came back from other threads"
            )
        return lines

    def events(self) -> list[str]:
        """The rare events that the process remembers, the newest first."""
        census = self._reader.take()
        totals = ", ".join(
            f"{sum(each.count for each in census.recorded if each.kind == kind)} {kind}"
            for kind in EVENT_KINDS
        )
        return [*events_of(census), f"since the start: {totals}"]

    @staticmethod
    def _of(block: Block) -> str:
        state = "free" if block.free else "live"
        if block.kind == "large":
            return f"a {state} large block at {block.start:#x}: {block.asked} bytes asked for"
        if block.kind == "sampled":
            return f"a {state} sampled block in a cell of {block.size} bytes at {block.start:#x}"
        return f"a {state} block of {block.size} bytes at {block.start:#x}"

    @staticmethod
    def _span(block: Block) -> str:
        owner = f"heap at {block.owner:#x}" if block.owner else "no heap"
        return (
            f"span {block.span:#x}: {block.span_start:#x} to "
            f"{block.span_start + block.span_bytes:#x}, node {block.node}, {owner}"
        )

    def _elsewhere(self, address: int) -> str:
        if self._blocks.span_of(address) is not None:
            return f"{address:#x} is in a span, and in no block of it"
        return f"{address:#x} is in no span: it is in {self._in_no_span(address)}"


def address_of(text: str) -> int:
    """An address as a user writes it: decimal, or with 0x."""
    try:
        return int(text, 0)
    except ValueError as error:
        raise Refused(f"'{text}' is no address") from error
