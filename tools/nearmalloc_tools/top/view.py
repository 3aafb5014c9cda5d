"""The picture of a census, and of how it changed since the one before."""

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearmalloc_tools.amounts import amount
from nearmalloc_tools.top.census import Census, OfHeap

_MOST_CLASSES = 12
_MOST_HEAPS = 8
_MOST_EVENTS = 8
_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 60  # of a sparkline


def sparkline(values: list[int]) -> str:
    """One bar for each value, from the least to the greatest."""
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1
    return "".join(_BARS[int((value - low) / step)] for value in values)


@dataclass
class History:
    """The censuses of one process as far as the picture needs them."""

    resident: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST_BARS))
    last: Census | None = None
    before: Census | None = None
    refused: str = ""  # why the census after `last` could not be taken

    def add(self, census: Census) -> None:
        self.before, self.last, self.refused = self.last, census, ""
        self.resident.append(census.resident)


@dataclass(frozen=True)
class Part:
    """A table of a picture, which has room for some of its rows."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str | Text]]  # the most important first
    most: int  # rows in a picture whose height has no limit

    def first(self, count: int) -> RenderableType:
        """So many rows, and how many there are beyond them."""
        table = Table(title=self.title, title_justify="left", box=None, pad_edge=False)
        for column in self.columns:
            table.add_column(column, justify="left" if column == "thread" else "right")
        for row in self.rows[:count]:
            table.add_row(*row)
        more = len(self.rows) - count
        return Group(table, Text(f"and {more} more")) if more > 0 else table


def _nodes(census: Census) -> Part:
    columns = (
        "node",
        "mapped",
        "live",
        "large",
        "free in spans",
        "cached",
        "dirty",
        "returned",
        "purges",
        "spills out/in",
    )
    rows = []
    for node in census.nodes:
        sizes = (
            node.mapped,
            node.live,
            node.large,
            node.free,
            node.cached,
            node.dirty,
            node.purged,
        )
        spills = f"{node.spills_out}/{node.spills_in}"
        rows.append((str(node.node), *map(amount, sizes), str(node.purge_calls), spills))
    return Part("Memory by node", columns, rows, len(rows))


def _classes(census: Census) -> Part:
    shown = sorted(census.classes, key=lambda each: each.live_bytes + each.free_bytes, reverse=True)
    rows = [
        (
            *map(str, (each.size, each.spans, each.live, each.free)),
            amount(each.live_bytes),
            amount(each.free_bytes),
        )
        for each in shown
        if each.spans > 0
    ]
    columns = ("size", "spans", "live blocks", "free blocks", "live", "free")
    return Part("Size classes, the largest first", columns, rows, _MOST_CLASSES)


_COUNTED = ("refills", "span_events", "remote_blocks", "freed_elsewhere")


def _counts(heap: OfHeap, since: OfHeap | None, seconds: float) -> list[str]:
    """Rates if some time has passed, else sums."""
    grown = [getattr(heap, name) - (getattr(since, name) if since else 0) for name in _COUNTED]
    return [f"{each / seconds:.0f}" if seconds else str(each) for each in grown]


def _thread(heap: OfHeap) -> Text:
    return Text("" if heap.thread is None else f"{heap.thread} {heap.thread_name or ''}".rstrip())


def _heaps(census: Census, before: Census | None) -> Part:
    """Rates if there is a census before, else sums."""
    unit = "" if before is None else "/s"
    states = ", ".join(f"{count} {state}" for state, count in census.heaps_by_state().items())
    known = any(heap.thread is not None for heap in census.heaps)
    columns = (
        "heap",
        "node",
        "state",
        *(["thread"] if known else []),
        f"malloc slow{unit}",
        f"free slow{unit}",
        f"remote taken back{unit}",
        f"freed elsewhere{unit}",
    )
    old = {heap.number: heap for heap in before.heaps} if before else {}
    seconds = census.taken - before.taken if before else 0

    def busy(heap: OfHeap) -> int:
        since = old.get(heap.number)
        return heap.refills + heap.span_events - (since.refills + since.span_events if since else 0)

    rows: list[list[str | Text]] = [
        [
            *(str(heap.number), str(heap.node), heap.state),
            *([_thread(heap)] if known else []),
            *_counts(heap, old.get(heap.number), seconds),
        ]
        for heap in sorted(census.heaps, key=busy, reverse=True)
    ]
    return Part(f"Heaps: {states}; the busiest first", columns, rows, _MOST_HEAPS)


def _events(census: Census) -> Part:
    when = "seconds ago" if census.clocked else "seconds before the newest"
    rows = []
    for event in census.events:
        node = f"{event.node} by {event.other}" if event.kind == "spill" else str(event.node)
        size = amount(event.bytes) + (" or more" if event.or_more else "")
        rows.append((f"{event.seconds_ago:.1f}", event.kind, node, size))
    columns = (when, "event", "node", "bytes")
    return Part("Rare events, the newest first", columns, rows, _MOST_EVENTS)


def head(history: History, most_bars: int = _MOST_BARS) -> Text:
    """The process in one line, with a sparkline of so many bars at most; 0: with none."""
    census = history.last
    if census is None:
        return Text(history.refused)
    line = Text(f"{census.name} ({census.pid}): {amount(census.resident)} resident", style="bold")
    if history.before is not None:
        seconds = census.taken - history.before.taken
        returned = (census.total("purged") - history.before.total("purged")) / seconds
        if most_bars > 0:
            line.append(f"  {sparkline(list(history.resident)[-most_bars:])}")
        line.append(f"  returned {amount(returned)}/s")
    line.append(f"  {census.free_share:.0%} of the bytes in spans are free")
    if history.refused:
        line.append(f"  (an earlier picture: {history.refused})", style="red")
    return line


def parts(history: History) -> list[Part]:
    """What stands below the head, the most important first."""
    census = history.last
    if census is None:
        return []
    return [_nodes(census), _classes(census), _heaps(census, history.before), _events(census)]


def picture(history: History) -> RenderableType:
    """The last census, with rates since the one before."""
    pieces = [head(history), *(part.first(part.most) for part in parts(history))]
    return Group(*(each for piece in pieces for each in (piece, Text(""))))


def show(census: Census) -> None:
    """Prints the picture of one census."""
    history = History()
    history.add(census)
    Console(width=None if sys.stdout.isatty() else 132).print(picture(history))
