"""What the structures of an allocator say at one moment: memory by node and by class, and heaps.

The process runs on while they are read, so numbers of one census can differ by what changed
meanwhile. Blocks in magazines count as live.
"""

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.process import Layout, Process
from nearmalloc_tools.top.record import Record
from nearmalloc_tools.top.threads import Threads

_TRIES = 5
_PAGE = 4096
_BITS = bytes.maketrans(b"01", b"\0\1")
LINK_BITS = (1 << 63) - 1  # of a block's link; the highest bit marks it (malloc/heap/marks.h)


@dataclass
class OfClass:
    """The blocks of a size class."""

    size: int
    spans: int = 0
    live: int = 0
    free: int = 0

    @property
    def live_bytes(self) -> int:
        return self.live * self.size

    @property
    def free_bytes(self) -> int:
        return self.free * self.size


@dataclass
class OfNode:
    """Memory of a node, in bytes, and counts."""

    node: int
    mapped: int = 0
    live: int = 0
    free: int = 0
    large: int = 0
    large_blocks: int = 0
    cached: int = 0
    dirty: int = 0
    purged: int = 0  # since the start
    purge_calls: int = 0
    spills_out: int = 0
    spills_in: int = 0
    rehomes: int = 0
    bind_refused: int = 0


HEAP_STATES = ("used", "parked", "shared")


@dataclass
class OfHeap:
    number: int
    node: int  # the kernel's number, as in OfNode and OfEvent
    state: str  # one of HEAP_STATES
    refills: int  # slow paths of malloc
    span_events: int  # slow paths of free
    remote_blocks: int  # freed by other threads, and taken back
    freed_elsewhere: int  # blocks that its thread freed: large ones, and those of others' spans
    thread: int | None = None  # the kernel's number; None: it has none, or which is not known
    thread_name: str | None = None
    freed_of: dict[int, int] = field(default_factory=dict)  # freed_elsewhere by the block's node


@dataclass
class OfEvent:
    """A rare event, or several of a kind and nodes within a second, with the sum of bytes."""

    kind: str
    node: int
    other: int  # spill: the node that served
    seconds_ago: float  # before the census; before the newest event if the process has no clock
    bytes: int
    or_more: bool = False  # the bytes are the most that an event can say


@dataclass
class Recorded:
    """How many events of a kind began on a node since the start."""

    kind: str
    node: int
    count: int


_MOST_SLICES = 0xFFFF  # of an event
_EVENT_KINDS = ("none", "spill", "growth", "purge", "bind_refused", "error")
EVENT_KINDS = _EVENT_KINDS[1:]


@dataclass
class Census:
    pid: int
    name: str
    resident: int
    taken: float = 0  # by time.monotonic(), in seconds
    nodes: list[OfNode] = field(default_factory=list)
    classes: list[OfClass] = field(default_factory=list)
    heaps: list[OfHeap] = field(default_factory=list)
    events: list[OfEvent] = field(default_factory=list)  # the newest first
    recorded: list[Recorded] = field(default_factory=list)
    clocked: bool = True  # False: it is a core file's, which does not say when it was written

    def total(self, name: str) -> int:
        return sum(getattr(node, name) for node in self.nodes)

    def heaps_by_state(self, node: int | None = None) -> dict[str, int]:
        """How many heaps are in each state: those of a node, or all."""
        states = [heap.state for heap in self.heaps if node in (None, heap.node)]
        return {state: states.count(state) for state in HEAP_STATES}

    @property
    def free_share(self) -> float:
        """The part of the bytes in spans that is free."""
        free = self.total("free")
        in_spans = self.total("live") + free
        return free / in_spans if in_spans else 0.0


class Span(NamedTuple):
    """The descriptor of a slice, as far as the tools read it."""

    list: int
    local: int
    frees: int
    kind: int
    class_: int
    uncarved: int
    remote: int
    slices: int
    start: int
    asked: int
    sampled: int
    owner: int
    node: int


_SPAN_LETTERS = "QQIBBIQIQQBQB"  # formats of the fields, as in `struct`
_COUNTED = ("list", "frees", "class_", "remote", "slices", "sampled")


@dataclass(frozen=True)
class Run:
    """Neighbouring mapped chunks. `free`, `dirty` and `kinds` have one byte for each slice."""

    free: bytes  # 1: no span has the slice
    dirty: bytes  # 1: the slice is free and was not given back yet
    kinds: bytes
    descriptors: bytes
    address: int  # of the first descriptor
    memory: int  # address of the first slice

    def __len__(self) -> int:
        return len(self.free)


def used_slices(run: Run) -> list[int]:
    """The indices of slices that are no free memory."""
    return [index for index, is_free in enumerate(run.free) if not is_free]


def uncarved_blocks(bits: int, size: int, count: int) -> Iterator[tuple[int, int]]:
    """The ranges of the span's blocks that were never allocated: a bit stands for the blocks that
    begin in a page, or for a block of a page or more."""
    unit = max(size, _PAGE)
    for bit in range(bits.bit_length()):
        if bits >> bit & 1:
            first, end = -(-bit * unit // size), -(-(bit + 1) * unit // size)
            yield min(first, count), min(end, count)


def _runs_of_true(flags: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """Where neighbours that are true begin and end."""
    end = 0
    for flag, group in itertools.groupby(flags):
        start, end = end, end + sum(1 for _ in group)
        if flag:
            yield start, end


class Reader:
    """Takes a census of a process as often as it is asked for."""

    def __init__(self, process: Process, layout: Layout, threads: Threads | None = None) -> None:
        """With `threads`, a census says which thread has each heap."""
        self.process, self.layout, self._threads = process, layout, threads
        at = layout
        places = [at[f"span.{name.rstrip('_')}"] for name in Span._fields]
        fields = dict(zip(Span._fields, zip(places, _SPAN_LETTERS, strict=True), strict=True))
        self._span = Record(at["span.bytes"], [*fields.values()])
        self._counted = Record(at["span.bytes"], [fields[name] for name in _COUNTED])
        masks = [(at[f"chunk.{name}"], "I") for name in ("free", "dirty", "away")]
        self._chunk = Record(at["chunk.bytes"], [*masks, (at["chunk.presence"], "H")])
        start, size = at.addresses["classes"] + at["class.size"], at["class.bytes"]
        # The sizes of the classes.
        self.sizes = [process.number(start + size * each, 4) for each in range(at["classes"])]
        if 0 in self.sizes:
            raise Refused(f"process {process.pid}: the table of its size classes is damaged")
        self.key = process.number(at.addresses["link_key"])

    def span(self, run: Run, index: int) -> Span:
        """The descriptor of a slice."""
        return Span._make(self._span.one(run.descriptors, index))

    def take(self) -> Census:
        """Tries again if the process unmapped what is being read."""
        for attempt in range(_TRIES):
            try:
                return self._take()
            except Refused:
                self.process.resident()  # raises if the process has ended
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError

    def _take(self) -> Census:
        at, process = self.layout, self.process
        census = Census(process.pid, process.name, process.resident(), time.monotonic())
        census.classes = [OfClass(size) for size in self.sizes]
        topology = at.addresses["topology"]
        for number in range(process.number(topology + at["topology.count"], 4)):
            kernel = process.number(topology + at["topology.kernel_id"] + 2 * number, 2)
            node = OfNode(kernel)
            counters = at.addresses["counters"] + number * at["counters"]
            for name in ("spills_out", "spills_in", "rehomes", "bind_refused"):
                setattr(node, name, process.number(counters + at[f"counters.{name}"]))
            for shard in self._shards(number):
                node.purged += process.number(shard + at["shard.purged_bytes"])
                node.purge_calls += process.number(shard + at["shard.purge_calls"])
                for run in self._runs_of(shard):
                    node.mapped += len(run) * at["slice.bytes"]
                    self._add_run(run, node, census)
            census.nodes.append(node)
        kernel_nodes = [node.node for node in census.nodes]
        census.heaps = self._heaps(kernel_nodes)
        census.clocked = process.clock() is not None
        census.events = self._events(kernel_nodes)
        census.recorded = self._recorded(kernel_nodes)
        return census

    def runs(self) -> Iterator[Run]:
        """All mapped chunks."""
        at = self.layout
        for number in range(
            self.process.number(at.addresses["topology"] + at["topology.count"], 4)
        ):
            for shard in self._shards(number):
                yield from self._runs_of(shard)

    def _flags(self, masks: Iterable[int]) -> bytes:
        """One byte for each bit, the lowest first."""
        width = self.layout["chunk.slices"]
        return "".join(f"{mask:0{width}b}"[::-1] for mask in masks).encode().translate(_BITS)

    def _shards(self, number: int) -> list[int]:
        at, process = self.layout, self.process
        node = at.addresses["nodes"] + number * at["nodes"]
        added = process.number(node + at["node.added"], 4)
        more = node + at["node.more"]
        return [
            node + at["node.first"],
            *(process.number(more + 8 * number) for number in range(added)),
        ]

    def _runs_of(self, shard: int) -> Iterator[Run]:
        at, process = self.layout, self.process
        region = process.number(shard + at["shard.regions"])
        while region:
            end = process.number(region + at["region.end"], 4)
            table = process.number(region + at["region.chunks"])
            chunks = [*self._chunk.all(process.read(table, end * at["chunk.bytes"]))]
            mapped = [each[3] >> 14 == at["chunk.mapped"] for each in chunks]
            spans = process.number(region + at["region.spans"])
            base = process.number(region + at["region.base"])
            for start, stop in _runs_of_true(mapped):
                first, slices = start * at["chunk.slices"], (stop - start) * at["chunk.slices"]
                address = spans + first * at["span.bytes"]
                descriptors = process.read(address, slices * at["span.bytes"])
                yield Run(
                    self._flags(free | away for free, _, away, _ in chunks[start:stop]),
                    self._flags(dirty | away for _, dirty, away, _ in chunks[start:stop]),
                    descriptors[at["span.kind"] :: at["span.bytes"]],
                    descriptors,
                    address,
                    base + first * at["slice.bytes"],
                )
            region = process.number(region + at["region.next"])

    def _add_run(self, run: Run, node: OfNode, census: Census) -> None:
        """A process may have millions of slices, so this reads of each only what it counts."""
        at, classes = self.layout, census.classes
        slice_bytes, span_bytes, local = at["slice.bytes"], at["span.bytes"], at["span.local"]
        large, blocks, small = at["span.large"], at["span.blocks"], at["classes.small"]
        node.dirty += run.dirty.count(1) * slice_bytes
        cached = run.free.count(0)
        numbers = self._counted.all(run.descriptors)
        for index, (is_free, kind, found) in enumerate(
            zip(run.free, run.kinds, numbers, strict=True)
        ):
            if is_free or kind not in (large, blocks):
                continue
            list_, frees, class_, remote, slices, sampled = found
            if kind == large:
                node.large += slices * slice_bytes
                node.large_blocks += sampled != at["sampled.blocks"]
                cached -= slices
            elif class_ < len(classes):
                cached -= slices
                of_class = classes[class_]
                capacity = slices * slice_bytes // of_class.size
                freed = (frees >> 16) - (frees & 0xFFFF)
                address = run.address + index * span_bytes
                if list_ != address + local and class_ < small:
                    freed, span = self._free_in_hot(self.span(run, index), address, capacity)
                    remote = span.remote
                free = min(max(freed + (remote >> 16 & 0xFFFF), 0), capacity)
                of_class.spans += 1
                of_class.free += free
                of_class.live += capacity - free
                node.free += free * of_class.size
                node.live += (capacity - free) * of_class.size
        node.cached += max(cached, 0) * slice_bytes

    def _free_in_hot(self, span: Span, address: int, capacity: int) -> tuple[int, Span]:
        """The free blocks of a span whose list is its heap's bin, which nothing counts. Its remote
        list is read anew: blocks that leave it meanwhile would be counted on both lists."""
        remote = address + self.layout["span.remote"]
        now = self.process.number(remote)
        for _ in range(_TRIES):
            span = span._replace(remote=now)
            free = self._on_list(span, capacity)
            now = self.process.number(remote)
            if now == span.remote:
                break
        return free, span

    def _on_list(self, span: Span, capacity: int) -> int:
        at, start = self.layout, span.start
        place = self.process.number(span.list)
        raw = self.process.read(start, span.slices * at["slice.bytes"])
        count = 0
        while place & 1 == 0 and 0 <= place - start <= len(raw) - 8 and count < capacity:
            count += 1
            link = int.from_bytes(raw[place - start : place - start + 8], "little")
            place ^= (link ^ self.key) & LINK_BITS
        return count + sum(
            end - first
            for first, end in uncarved_blocks(span.uncarved, self.sizes[span.class_], capacity)
        )

    def _heaps(self, nodes: list[int]) -> list[OfHeap]:
        at, process = self.layout, self.process
        made = process.number(at.addresses["heaps.made"], 4)
        pointers = process.numbers(at.addresses["heaps"], made)
        if self._threads:
            self._threads.look()
        return [
            self._heap(number, heap, nodes) for number, heap in enumerate(pointers) if heap
        ]

    def _heap(self, number: int, heap: int, nodes: list[int]) -> OfHeap:
        at, process = self.layout, self.process
        shared = process.number(heap + at["heap.shared"], 1)
        parked = process.number(heap + at["heap.parked"], 1)
        freed = process.numbers(heap + at["heap.freed_of"], len(nodes))
        state = "shared" if shared else "parked" if parked else "used"
        thread = None
        # An earlier library of this layout's version does not have the last one.
        if self._threads and state == "used" and "heap.thread" in at.numbers:
            thread = self._threads.of(process.number(heap + at["heap.thread"]))
        return OfHeap(
            number,
            nodes[process.number(heap + at["heap.node"], 1)],
            state,
            process.number(heap + at["heap.visits"]),
            process.number(heap + at["heap.counts"]),
            process.number(heap + at["heap.remote"]),
            sum(freed),
            thread,
            None if thread is None else process.name_of(thread),
            dict(zip(nodes, freed, strict=True)),
        )

    def _events(self, nodes: list[int]) -> list[OfEvent]:
        at, process = self.layout, self.process
        recorded = process.number(at.addresses["events.next"], 4)
        words = process.numbers(at.addresses["events"], at["events"])
        numbers = range(recorded - 1, max(recorded - at["events"], 0) - 1, -1)
        newest_first = [words[number % at["events"]] for number in numbers]
        clock = process.clock()
        now = max(map(_tenths, newest_first), default=0) if clock is None else int(clock * 10)
        found = []
        for word in newest_first:
            kind, node, other = word & 0xF, word >> 4 & 0x3F, word >> 10 & 0x3F
            if 0 < kind < len(_EVENT_KINDS) and max(node, other) < len(nodes):
                slices = word >> 48
                found.append(
                    OfEvent(
                        _EVENT_KINDS[kind],
                        nodes[node],
                        nodes[other],
                        max(now - _tenths(word), 0) / 10,
                        slices * at["slice.bytes"],
                        slices == _MOST_SLICES,
                    )
                )
        return found

    def _recorded(self, nodes: list[int]) -> list[Recorded]:
        at, process = self.layout, self.process
        start, size = at.addresses["events.begun"], at["events.begun"]
        return [
            Recorded(kind, node, process.number(start + number * size + 8 * index))
            for number, node in enumerate(nodes)
            for index, kind in enumerate(EVENT_KINDS)
        ]


def _tenths(event: int) -> int:
    """When it was, by CLOCK_MONOTONIC."""
    return event >> 16 & 0xFFFFFFFF
