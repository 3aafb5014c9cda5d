"""Reads the files that the recorder of timelines writes; docs/timeline.md says what is in them.

Invariant: all times are nanoseconds since the timeline's start or, if a row has an interval of the
kind `measured`, since that began; this row is no thread's and is left out. The events of a row are
in the order in which its thread recorded them. A file that is not whole is an error of one line.
"""

import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MAGIC = b"neartime"
VERSION = 1
EVENT_BYTES = 24
NAME_BYTES = 32
HEADER = struct.Struct("<8sIIQQQQQQII")
ROW = struct.Struct("<32sQQQQQ")
MOST_KINDS = 64
INTERVAL, POINT, SAMPLE = range(3)
_TIME_BITS = 56


class TimelineError(Exception):
    """A bad file or request; the message is one line."""


@dataclass(frozen=True, slots=True)
class Events:
    """Events as columns. `kind` is an index of the timeline's kinds."""

    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    kind: NDArray[np.int64]
    shape: NDArray[np.int64]
    value: NDArray[np.int64]
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def end(self) -> NDArray[np.int64]:
        return self.begin + self.length

    def where(self, chosen: NDArray[np.bool_] | slice) -> "Events":
        return Events(*(getattr(self, name)[chosen] for name in Events.__slots__))

    def of(self, shape: int, kind: int | None = None) -> "Events":
        chosen = self.shape == shape
        return self.where(chosen if kind is None else chosen & (self.kind == kind))

    def within(self, begin: float, end: float) -> "Events":
        """Returns the events of which a part lies in [begin, end]."""
        return self.where((self.begin <= end) & (self.end >= begin))


@dataclass(frozen=True, slots=True)
class Row:
    """What one thread recorded. `left` is None if the thread did not say when it ended."""

    name: str
    thread: int
    joined: int
    left: int | None
    dropped: int
    events: Events


@dataclass(frozen=True)
class Timeline:
    """Everything of one file. `threads` joined, of which only `rows` found room."""

    path: Path
    process: int
    started_wall: int  # nanoseconds since 1970
    written: int
    capacity: int
    threads: int
    dropped_without_row: int
    kinds: tuple[str, ...]
    rows: tuple[Row, ...]
    measured: int | None = None  # how long the measured region was; it begins at 0

    @property
    def dropped(self) -> int:
        return self.dropped_without_row + sum(row.dropped for row in self.rows)

    @property
    def events(self) -> int:
        return sum(len(row.events) for row in self.rows)

    @property
    def end(self) -> int:
        """Returns the end of the last event."""
        return max((int(row.events.end.max()) for row in self.rows if len(row.events)), default=0)

    def ended(self, row: Row) -> int:
        """Returns the time up to which the row recorded: a full row dropped later events."""
        if row.dropped:
            return int(row.events.end.max()) if len(row.events) else row.joined
        return self.end if row.left is None else row.left

    def kind(self, name: str) -> int | None:
        return self.kinds.index(name) if name in self.kinds else None

    def kinds_of(self, shape: int) -> list[int]:
        """Returns the kinds that have events of this shape."""
        found = {int(kind) for row in self.rows for kind in np.unique(row.events.of(shape).kind)}
        return sorted(found)


def read(path: Path) -> Timeline:
    """Reads a file. Raises TimelineError if it has another format or version, or was cut off."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TimelineError(f"{path}: {error.strerror}") from None
    return _Reader(path, data).timeline()


class _Reader:
    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._data = memoryview(data)
        self._at = 0
        self._started = 0

    def timeline(self) -> Timeline:
        if bytes(self._data[: len(MAGIC)]) != MAGIC:
            raise self._error("is no timeline")
        fields = HEADER.unpack(self._take(HEADER.size))
        _, version, kinds, self._started, wall, written = fields[:6]
        capacity, threads, without_row, rows, process = fields[6:]
        if version != VERSION:
            raise self._error(f"is of version {version}; this program reads version {VERSION}")
        if kinds > MOST_KINDS:
            raise self._error(f"names {kinds} kinds, at most {MOST_KINDS} are possible")
        names = [_text(self._take(NAME_BYTES)) for _ in range(kinds)]
        found = Timeline(
            path=self._path,
            process=process,
            started_wall=wall,
            written=self._since(written),
            capacity=capacity,
            threads=threads,
            dropped_without_row=without_row,
            kinds=tuple(name or f"kind {number}" for number, name in enumerate(names)),
            rows=tuple(self._row(number, kinds) for number in range(rows)),
        )
        if self._at != len(self._data):
            raise self._error(f"has {len(self._data) - self._at} bytes too many")
        return _from_the_region(found)

    def _error(self, what: str) -> TimelineError:
        return TimelineError(f"{self._path}: {what}")

    def _take(self, size: int) -> memoryview:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise self._error(f"is cut short at {len(self._data)} bytes")
        self._at += size
        return found

    def _since(self, time: int) -> int:
        return time - self._started

    def _row(self, number: int, kinds: int) -> Row:
        name, thread, joined, left, dropped, events = ROW.unpack(self._take(ROW.size))
        columns = self._events(events)
        if len(columns) and (columns.kind.max() >= kinds or columns.shape.max() > SAMPLE):
            raise self._error(f"has an event of an unknown kind in row {number}")
        return Row(
            name=_text(name) or f"thread {number}",
            thread=thread,
            joined=self._since(joined) if joined else 0,
            left=self._since(left) if left else None,
            dropped=dropped,
            events=columns,
        )

    def _events(self, number: int) -> Events:
        words = np.frombuffer(self._take(number * EVENT_BYTES), dtype="<u8").reshape(-1, 3)
        first, second, third = words.T.astype(np.uint64)
        # Modulo 2^56, so that what was before the start is negative.
        since = (first >> np.uint64(8)) - np.uint64(self._started & (2**_TIME_BITS - 1))
        begin = (since << np.uint64(64 - _TIME_BITS)).astype(np.int64) >> (64 - _TIME_BITS)
        length = (second & np.uint64(0xFFFF)) << np.uint64(32) | third >> np.uint64(32)
        return Events(
            begin=begin,
            length=length.astype(np.int64),
            kind=(first >> np.uint64(2) & np.uint64(63)).astype(np.int64),
            shape=(first & np.uint64(3)).astype(np.int64),
            value=(second >> np.uint64(16)).astype(np.int64),
            count=(third & np.uint64(0xFFFFFFFF)).astype(np.int64),
        )


def _from_the_region(found: Timeline) -> Timeline:
    """The timeline with its times since the begin of the measured region, if it has one."""
    kind = found.kind("measured")
    regions = [row for row in found.rows if kind is not None and len(row.events.of(INTERVAL, kind))]
    if not regions:
        return found
    region = regions[0].events.of(INTERVAL, kind)
    begin = int(region.begin[0])
    rows = tuple(
        replace(
            row,
            joined=row.joined - begin,
            left=None if row.left is None else row.left - begin,
            events=replace(row.events, begin=row.events.begin - begin),
        )
        for row in found.rows
        if row is not regions[0]
    )
    return replace(
        found,
        rows=rows,
        written=found.written - begin,
        threads=found.threads - 1,
        measured=int(region.length[0]),
    )


def _text(name: memoryview | bytes) -> str:
    return bytes(name).partition(b"\0")[0].decode("utf-8", "replace")
