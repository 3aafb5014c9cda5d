"""The picture of a census, and of how it changed since the one before."""

import sys
from collections import deque
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearlab.top.census import Census, OfHeap

_MOST_CLASSES = 12
_MOST_HEAPS = 8
_MOST_EVENTS = 8
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60  # values of a sparkline


def amount(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def sparkline(values: list[int]) -> str:
    """One bar for each value, from the least to the greatest."""
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1
    return "".join(_BARS[int((value - low) / step)] for value in values)


@dataclass
class History:
    """The censuses of one process as far as the picture needs them."""

    resident: deque[int] = field(default_factory=lambda: deque(maxlen=_WIDTH))
    last: Census | None = None
    before: Census | None = None
    refused: str = ""  # why the census after `last` could not be taken

    def add(self, census: Census) -> None:
        self.before, self.last, self.refused = self.last, census, ""
        self.resident.append(census.resident)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", expand=False, box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _nodes(census: Census) -> Table:
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
    table = _table("Memory by node", *columns)
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
        table.add_row(
            str(node.node),
            *map(amount, sizes),
            str(node.purge_calls),
            f"{node.spills_out}/{node.spills_in}",
        )
    return table


def _classes(census: Census) -> Table:
    shown = sorted(census.classes, key=lambda each: each.live_bytes + each.free_bytes, reverse=True)
    shown = [each for each in shown if each.spans > 0]
    table = _table(
        f"Size classes: the largest {min(_MOST_CLASSES, len(shown))} of {len(shown)}",
        "size",
        "spans",
        "live blocks",
        "free blocks",
        "live",
        "free",
    )
    for each in shown[:_MOST_CLASSES]:
        table.add_row(
            str(each.size),
            str(each.spans),
            str(each.live),
            str(each.free),
            amount(each.live_bytes),
            amount(each.free_bytes),
        )
    return table


_COUNTED = ("refills", "span_events", "remote_blocks", "freed_elsewhere")


def _counts(heap: OfHeap, since: OfHeap | None, seconds: float) -> list[str]:
    """Rates if some time has passed, else sums."""
    grown = [getattr(heap, name) - (getattr(since, name) if since else 0) for name in _COUNTED]
    return [f"{each / seconds:.0f}" if seconds else str(each) for each in grown]


def _thread(heap: OfHeap) -> Text:
    return Text("" if heap.thread is None else f"{heap.thread} {heap.thread_name or ''}".rstrip())


def _heaps(census: Census, before: Census | None) -> Table:
    """Rates if there is a census before, else sums."""
    unit = "" if before is None else "/s"
    counts = {
        state: sum(heap.state == state for heap in census.heaps)
        for state in ("used", "parked", "shared")
    }
    title = ", ".join(f"{count} {state}" for state, count in counts.items())
    known = any(heap.thread is not None for heap in census.heaps)
    table = _table(
        f"Heaps: {title}; the busiest",
        "heap",
        "node",
        "state",
        *(["thread"] if known else []),
        f"malloc slow{unit}",
        f"free slow{unit}",
        f"remote taken back{unit}",
        f"freed elsewhere{unit}",
    )
    if known:
        table.columns[3].justify = "left"
    old = {heap.number: heap for heap in before.heaps} if before else {}
    seconds = census.taken - before.taken if before else 0

    def busy(heap: OfHeap) -> int:
        since = old.get(heap.number)
        return heap.refills + heap.span_events - (since.refills + since.span_events if since else 0)

    for heap in sorted(census.heaps, key=busy, reverse=True)[:_MOST_HEAPS]:
        row = [str(heap.number), str(heap.node), heap.state]
        thread = [_thread(heap)] if known else []
        table.add_row(*row, *thread, *_counts(heap, old.get(heap.number), seconds))
    return table


def _events(census: Census) -> Table:
    when = "seconds ago" if census.clocked else "seconds before the newest"
    table = _table("Rare events, the newest first", when, "event", "node", "bytes")
    for event in census.events[:_MOST_EVENTS]:
        node = f"{event.node} by {event.other}" if event.kind == "spill" else str(event.node)
        size = amount(event.bytes) + (" or more" if event.or_more else "")
        table.add_row(f"{event.seconds_ago:.1f}", event.kind, node, size)
    return table


def picture(history: History) -> RenderableType:
    """The last census, with rates since the one before."""
    census = history.last
    if census is None:
        return Text(history.refused)
    in_spans = census.total("live") + census.total("free")
    unused = census.total("free") / in_spans if in_spans else 0
    head = Text(f"{census.name} ({census.pid}): {amount(census.resident)} resident", style="bold")
    if history.before is not None:
        seconds = census.taken - history.before.taken
        returned = (census.total("purged") - history.before.total("purged")) / seconds
        head.append(f"  {sparkline(list(history.resident))}  returned {amount(returned)}/s")
    head.append(f"  {unused:.0%} of the bytes in spans are free")
    if history.refused:
        head.append(f"  (an earlier picture: {history.refused})", style="red")
    heaps = _heaps(census, history.before)
    parts = (head, _nodes(census), _classes(census), heaps, _events(census))
    return Group(*(piece for part in parts for piece in (part, Text(""))))


def show(census: Census) -> None:
    """Prints the picture of one census."""
    history = History()
    history.add(census)
    Console(width=None if sys.stdout.isatty() else 132).print(picture(history))
