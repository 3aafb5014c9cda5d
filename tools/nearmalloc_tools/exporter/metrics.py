"""What a census says, as metrics for prometheus_client.

Names and units follow OpenMetrics' rules. Each metric has the labels `process` (the name as in
/proc/PID/comm) and `pid`. docs/memory.md lists them; a test compares.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.top.census import EVENT_KINDS, Census, Reader
from nearmalloc_tools.top.process import Process, find_layout, named

PREFIX = "nearmalloc_process_"
_WHO = ("process", "pid")

Family = CounterMetricFamily | GaugeMetricFamily


@dataclass(frozen=True)
class _OfNode:
    """A number of each node; a counter if it only grows."""

    name: str
    field: str
    counter: bool
    help: str


_OF_NODE = (
    _OfNode("mapped_bytes", "mapped", False, "Address space of the node that is mapped."),
    _OfNode("live_bytes", "live", False, "Blocks of size classes that the program holds."),
    _OfNode("free_bytes", "free", False, "Free blocks in spans."),
    _OfNode("large_bytes", "large", False, "Memory in large blocks, whole slices."),
    _OfNode("large_blocks", "large_blocks", False, "Large blocks."),
    _OfNode("cached_bytes", "cached", False, "Empty spans that heaps keep."),
    _OfNode("dirty_bytes", "dirty", False, "Free memory that was not given back yet."),
    _OfNode("purged_bytes", "purged", True, "Memory given back to the system."),
    _OfNode("purge_calls", "purge_calls", True, "System calls that gave memory back."),
    _OfNode("spills_out", "spills_out", True, "Requests for the node that another node served."),
    _OfNode("spills_in", "spills_in", True, "Requests for other nodes that the node served."),
    _OfNode("rehomes", "rehomes", True, "Threads that moved to the node."),
    _OfNode("bind_refused", "bind_refused", True, "Calls of mbind that the kernel refused."),
)
_OF_HEAPS = (
    ("refills", "refills", "Times that malloc found no free block and took the lock of its heap."),
    ("span_events", "span_events", "Times that free took the lock of its heap."),
    ("remote_blocks", "remote_blocks", "Blocks of other threads' frees that came back."),
)


def _family(name: str, words: str, labels: tuple[str, ...], counter: bool = False) -> Family:
    unit = next((unit for unit in ("bytes", "seconds") if name.endswith(f"_{unit}")), "")
    kind = CounterMetricFamily if counter else GaugeMetricFamily
    return kind(PREFIX + name, words, labels=[*_WHO, *labels], unit=unit)


def families(censuses: list[Census]) -> Iterator[Metric]:
    """The metrics of all processes that were read."""
    resident = _family("resident_bytes", "Resident memory, as the kernel counts it.", ())
    for each in censuses:
        resident.add_metric([each.name, str(each.pid)], each.resident)
    yield resident
    for column in _OF_NODE:
        family = _family(column.name, column.help, ("node",), column.counter)
        for each in censuses:
            for node in each.nodes:
                value = getattr(node, column.field)
                family.add_metric([each.name, str(each.pid), str(node.node)], value)
        yield family
    for name, words in (("class_live_bytes", "live"), ("class_free_bytes", "free")):
        family = _family(name, f"Blocks of a size class that are {words}.", ("size",))
        for each in censuses:
            for of_class in each.classes:
                if of_class.spans > 0:
                    value = getattr(of_class, f"{words}_bytes")
                    family.add_metric([each.name, str(each.pid), str(of_class.size)], value)
        yield family
    heaps = _family("heaps", "Heaps, by whether a thread has them.", ("state", "node"))
    for each in censuses:
        for node in each.nodes:
            for state, count in each.heaps_by_state(node.node).items():
                heaps.add_metric([each.name, str(each.pid), state, str(node.node)], count)
    yield heaps
    for name, field, words in _OF_HEAPS:
        family = _family(name, words, (), counter=True)
        for each in censuses:
            value = sum(getattr(heap, field) for heap in each.heaps)
            family.add_metric([each.name, str(each.pid)], value)
        yield family
    yield _freed_elsewhere(censuses)
    yield from _events(censuses)


def _freed_elsewhere(censuses: list[Census]) -> Metric:
    family = _family(
        "freed_elsewhere_blocks",
        "Freed blocks, large or of another heap's spans, by their node and the freeing heap's.",
        ("node", "by_node"),
        counter=True,
    )
    for each in censuses:
        counts: Counter[tuple[int, int]] = Counter()
        for heap in each.heaps:
            for node, count in heap.freed_of.items():
                counts[node, heap.node] += count
        for (node, by), count in sorted(counts.items()):
            if count > 0:
                family.add_metric([each.name, str(each.pid), str(node), str(by)], count)
    return family


def _events(censuses: list[Census]) -> Iterator[Metric]:
    """The ring forgets old events, so their number may fall; that of all events does not."""
    total = _family(
        "recorded_events",
        "Rare events; those of one kind and the same nodes within a second are one.",
        ("kind", "node"),
        counter=True,
    )
    for each in censuses:
        for recorded in each.recorded:
            labels = [each.name, str(each.pid), recorded.kind, str(recorded.node)]
            total.add_metric(labels, recorded.count)
    yield total
    count = _family("events", "Rare events that the process remembers.", ("kind", "node"))
    age = _family("event_age_seconds", "Time since the newest of them.", ("kind", "node"))
    for each in censuses:
        for kind in EVENT_KINDS:
            for node in each.nodes:
                found = [
                    event.seconds_ago
                    for event in each.events
                    if (event.kind, event.node) == (kind, node.node)
                ]
                labels = [each.name, str(each.pid), kind, str(node.node)]
                count.add_metric(labels, len(found))
                if found:
                    age.add_metric(labels, min(found))
    yield count
    yield age


class Processes(Collector):
    """The processes that numbers or names mean at the moment of a scrape.

    Thread-safety: the server calls `collect` from a thread for each request; a lock orders them.
    """

    def __init__(self, targets: list[str]) -> None:
        self._targets = targets
        self._readers: dict[tuple[int, str, str, str], Reader] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            return iter(self._collect())

    def _collect(self) -> list[Metric]:
        up = GaugeMetricFamily(
            PREFIX + "up",
            "Processes of the target that were read.",
            labels=["target"],
        )
        censuses: dict[int, Census] = {}
        for target in self._targets:
            found, _ = self.read(target)
            up.add_metric([target], len(found))
            censuses |= {census.pid: census for census in found}
        # A process that could not be read may have ended, or run another program now.
        self._readers = {key: each for key, each in self._readers.items() if key[0] in censuses}
        return [up, *families(list(censuses.values()))]

    def read(self, target: str) -> tuple[list[Census], list[Refused]]:
        """The processes of a target, and why others of it cannot be read."""
        found: list[Census] = []
        refusals: list[Refused] = []
        try:
            pids = named(target)
        except Refused as refusal:
            return [], [refusal]
        for pid in pids:
            try:
                found.append(self._reader(pid).take())
            except Refused as refusal:
                refusals.append(refusal)
        return found, refusals

    def _reader(self, pid: int) -> Reader:
        """A process number may be used again, and a process may execute another program: the times
        of their starts tell processes apart, and the places of code and stack programs."""
        process = Process(pid)
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise Refused(f"process {pid} has ended") from error
        words = status.rpartition(")")[2].split()
        key = (pid, words[19], words[23], words[25])
        if key not in self._readers:
            self._readers = {old: each for old, each in self._readers.items() if old[0] != pid}
            self._readers[key] = Reader(process, find_layout(process))
        return self._readers[key]
