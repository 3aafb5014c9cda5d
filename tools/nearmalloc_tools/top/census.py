"""What the structures of an allocator say at one moment: memory by node and by class, and heaps.

The process runs on while they are read, so numbers of one census can differ by what changed
meanwhile. Blocks in magazines count as live.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from nearmalloc_tools.top.process import Layout, Process, Refused
from nearmalloc_tools.top.threads import Threads

_TRIES = 5
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


@dataclass(frozen=True)
class Run:
    """Neighbouring mapped chunks, and the descriptors of their slices."""

    chunks: np.ndarray
    spans: np.ndarray
    address: int  # of the first descriptor
    memory: int  # address of the first slice


class Reader:
    """Takes a census of a process as often as it is asked for."""

    def __init__(self, process: Process, layout: Layout, threads: Threads | None = None) -> None:
        """With `threads`, a census says which thread has each heap."""
        self.process, self.layout, self._threads = process, layout, threads
        at = layout
        self.spans = np.dtype(
            {
                "names": [
                    "list",
                    "local",
                    "frees",
                    "kind",
                    "class",
                    "uncarved",
                    "remote",
                    "slices",
                    "start",
                    "asked",
                    "sampled",
                    "owner",
                    "node",
                ],
                "formats": [
                    *("u8", "u8", "u4", "u1", "u1", "u4", "u8", "u4", "u8", "u8", "u1", "u8", "u1")
                ],
                "offsets": [
                    at["span.list"],
                    at["span.local"],
                    at["span.frees"],
                    at["span.kind"],
                    at["span.class"],
                    at["span.uncarved"],
                    at["span.remote"],
                    at["span.slices"],
                    at["span.start"],
                    at["span.asked"],
                    at["span.sampled"],
                    at["span.owner"],
                    at["span.node"],
                ],
                "itemsize": at["span.bytes"],
            }
        )
        self.chunks = np.dtype(
            {
                "names": ["free", "dirty", "away", "presence"],
                "formats": ["u4", "u4", "u4", "u2"],
                "offsets": [
                    at["chunk.free"],
                    at["chunk.dirty"],
                    at["chunk.away"],
                    at["chunk.presence"],
                ],
                "itemsize": at["chunk.bytes"],
            }
        )
        self.shapes = np.frombuffer(
            process.read(at.addresses["classes"], at["classes"] * at["class.bytes"]),
            np.dtype(
                {
                    "names": ["size"],
                    "formats": ["u4"],
                    "offsets": [at["class.size"]],
                    "itemsize": at["class.bytes"],
                }
            ),
        )
        self.key = process.number(at.addresses["link_key"])

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
        census.classes = [OfClass(int(shape["size"])) for shape in self.shapes]
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
                    node.mapped += len(run.chunks) * at["chunk.slices"] * at["slice.bytes"]
                    self._add_chunks(run, node, census)
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

    def free_slices(self, run: Run) -> np.ndarray:
        return self._flags(run.chunks["free"] | run.chunks["away"])

    def _flags(self, masks: np.ndarray) -> np.ndarray:
        bits = np.arange(self.layout["chunk.slices"], dtype=np.uint32)
        return (masks[:, None] >> bits & 1).astype(bool).ravel()

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
            chunks = np.frombuffer(process.read(table, end * at["chunk.bytes"]), self.chunks)
            mapped = np.flatnonzero(chunks["presence"] >> 14 == at["chunk.mapped"])
            spans = process.number(region + at["region.spans"])
            base = process.number(region + at["region.base"])
            slices = at["chunk.slices"]
            for run in np.split(mapped, np.flatnonzero(np.diff(mapped) != 1) + 1):
                if len(run):
                    first = int(run[0]) * slices
                    address = spans + first * at["span.bytes"]
                    raw = process.read(address, len(run) * slices * at["span.bytes"])
                    described = np.frombuffer(raw, self.spans)
                    memory = base + first * at["slice.bytes"]
                    yield Run(chunks[run], described, address, memory)
            region = process.number(region + at["region.next"])

    def _add_chunks(self, run: Run, node: OfNode, census: Census) -> None:
        spans, address = run.spans, run.address
        at = self.layout
        slice_bytes = at["slice.bytes"]
        free = self.free_slices(run)
        dirty = self._flags(run.chunks["dirty"] | run.chunks["away"])
        node.dirty += int(dirty.sum()) * slice_bytes
        large = ~free & (spans["kind"] == at["span.large"])
        node.large += int(spans["slices"][large].sum()) * slice_bytes
        node.large_blocks += int((large & (spans["sampled"] != at["sampled.blocks"])).sum())
        found = np.flatnonzero(
            ~free & (spans["kind"] == at["span.blocks"]) & (spans["class"] < len(self.shapes))
        )
        used = int((~free).sum()) - int(spans["slices"][large].sum())
        node.cached += max(used - int(spans["slices"][found].sum()), 0) * slice_bytes
        if len(found):
            self._add_spans(spans[found], address + found * at["span.bytes"], node, census)

    def _add_spans(
        self, spans: np.ndarray, addresses: np.ndarray, node: OfNode, census: Census
    ) -> None:
        at = self.layout
        classes = spans["class"].astype(np.int64)
        sizes = self.shapes["size"][classes].astype(np.int64)
        capacity = spans["slices"].astype(np.int64) * at["slice.bytes"] // sizes
        frees = spans["frees"].astype(np.int64)
        freed = (frees >> 16) - (frees & 0xFFFF)
        hot = (spans["list"] != addresses.astype(np.uint64) + at["span.local"]) & (
            classes < at["classes.small"]
        )
        for index in np.flatnonzero(hot):
            freed[index] = self._free_in_hot(
                spans[index], int(addresses[index]), int(capacity[index])
            )
        free = np.clip(
            freed + (spans["remote"] >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64),
            0,
            capacity,
        )
        node.live += int(((capacity - free) * sizes).sum())
        node.free += int((free * sizes).sum())
        for number in np.unique(classes):
            mine, of_class = classes == number, census.classes[number]
            of_class.spans += int(mine.sum())
            of_class.live += int((capacity - free)[mine].sum())
            of_class.free += int(free[mine].sum())

    def _free_in_hot(self, span: np.void, address: int, capacity: int) -> int:
        """The free blocks of a span whose list is its heap's bin, which nothing counts. Its remote
        list is read anew: blocks that leave it meanwhile would be counted on both lists."""
        remote = address + self.layout["span.remote"]
        now = self.process.number(remote)
        for _ in range(_TRIES):
            span["remote"] = now
            free = self._on_list(span, capacity)
            now = self.process.number(remote)
            if now == span["remote"]:
                break
        return free

    def _on_list(self, span: np.void, capacity: int) -> int:
        at, size = self.layout, int(self.shapes["size"][span["class"]])
        start = int(span["start"])
        head = self.process.number(int(span["list"]))
        raw = self.process.read(start, int(span["slices"]) * at["slice.bytes"])
        count, place = 0, head
        while place & 1 == 0 and 0 <= place - start <= len(raw) - 8 and count < capacity:
            count += 1
            link = int.from_bytes(raw[place - start : place - start + 8], "little")
            place ^= (link ^ self.key) & LINK_BITS
        uncarved = int(span["uncarved"])
        first = (np.arange(capacity, dtype=np.int64) * size) >> 12
        return count + int((uncarved >> first & 1).sum())

    def _heaps(self, nodes: list[int]) -> list[OfHeap]:
        at, process = self.layout, self.process
        made = process.number(at.addresses["heaps.made"], 4)
        pointers = np.frombuffer(process.read(at.addresses["heaps"], 8 * made), np.uint64)
        if self._threads:
            self._threads.look()
        return [
            self._heap(number, int(heap), nodes) for number, heap in enumerate(pointers) if heap
        ]

    def _heap(self, number: int, heap: int, nodes: list[int]) -> OfHeap:
        at, process = self.layout, self.process
        shared = process.number(heap + at["heap.shared"], 1)
        parked = process.number(heap + at["heap.parked"], 1)
        freed = np.frombuffer(process.read(heap + at["heap.freed_of"], 8 * len(nodes)), np.uint64)
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
            int(freed.sum()),
            thread,
            None if thread is None else process.name_of(thread),
            dict(zip(nodes, freed.tolist(), strict=True)),
        )

    def _events(self, nodes: list[int]) -> list[OfEvent]:
        at, process = self.layout, self.process
        recorded = process.number(at.addresses["events.next"], 4)
        words = np.frombuffer(process.read(at.addresses["events"], 8 * at["events"]), np.uint64)
        numbers = range(recorded - 1, max(recorded - at["events"], 0) - 1, -1)
        newest_first = [int(words[number % at["events"]]) for number in numbers]
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
