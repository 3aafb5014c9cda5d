"""The numbers of a timeline: the share of time in a kind of interval, garbage by epoch.

Invariant: intervals that overlap in a row count once; a row counts from when its thread joined
until it ended or, if events were dropped, until the last that was recorded.
"""

from dataclasses import dataclass

import numpy as np

from nearlab.timeline.file import INTERVAL, POINT, SAMPLE, Events, Row, Timeline, TimelineError

MS = 1_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a timeline, in nanoseconds since its start."""

    begin: int
    end: int


def window(timeline: Timeline, from_ms: float | None = None, to_ms: float | None = None) -> Window:
    """Returns the requested window; by default the measured region or, if the program told of
    none, the whole timeline. It is never empty."""
    begins = [int(row.events.begin.min()) for row in timeline.rows if len(row.events)]
    whole = min([0, *begins]), timeline.end
    default = whole if timeline.measured is None else (0, timeline.measured)
    first = default[0] if from_ms is None else int(from_ms * MS)
    last = max(default[1], first + 1) if to_ms is None else int(to_ms * MS)
    if last <= first:
        raise TimelineError(f"nothing lies between {first / MS:g} and {last / MS:g} ms")
    return Window(first, last)


def interval_kind(timeline: Timeline, name: str | None = None) -> int | None:
    """Returns the kind of interval to show: the named one, else free_batch, else the first."""
    found = timeline.kinds_of(INTERVAL)
    if name is None:
        return min(found, default=None)
    if timeline.kind(name) not in found:
        known = ", ".join(timeline.kinds[kind] for kind in found) or "none at all"
        raise TimelineError(f"{timeline.path}: has no interval `{name}`, but {known}")
    return timeline.kind(name)


def point_kind(timeline: Timeline) -> int | None:
    """Returns the kind of point to show: epoch_change, else the first."""
    found = timeline.kinds_of(POINT)
    wanted = timeline.kind("epoch_change")
    return wanted if wanted in found else min(found, default=None)


def covered(intervals: Events, part: Window) -> int:
    """Nanoseconds of the window that lie in at least one of the intervals."""
    order = np.argsort(intervals.begin, kind="stable")
    begins = np.clip(intervals.begin[order], part.begin, part.end)
    ends = np.clip(intervals.end[order], part.begin, part.end)
    reached = np.maximum.accumulate(np.concatenate(([part.begin], ends)))
    return int(np.maximum(0, ends - np.maximum(begins, reached[:-1])).sum())


def recorded(timeline: Timeline, row: Row, part: Window) -> int:
    """Nanoseconds of the window in which the row's thread was recorded."""
    return max(0, min(timeline.ended(row), part.end) - max(row.joined, part.begin))


def share_of_time(timeline: Timeline, kind: int, part: Window) -> float | None:
    """The part of all threads' recorded time that lies in intervals of the kind."""
    whole = sum(recorded(timeline, row, part) for row in timeline.rows)
    inside = sum(covered(row.events.of(INTERVAL, kind), part) for row in timeline.rows)
    return inside / whole if whole else None


def unreclaimed(timeline: Timeline, part: Window) -> tuple[np.ndarray, np.ndarray]:
    """Epochs, and the objects that waited in each: the mean over threads of each thread's mean."""
    kind = timeline.kind("unreclaimed")
    epochs, means = [], []
    for row in timeline.rows if kind is not None else ():
        samples = row.events.of(SAMPLE, kind).within(part.begin, part.end)
        found, place = np.unique(samples.count, return_inverse=True)
        epochs.append(found)
        means.append(np.bincount(place, samples.value, len(found)) / np.bincount(place))
    if not epochs:
        return np.empty(0), np.empty(0)
    found, place = np.unique(np.concatenate(epochs), return_inverse=True)
    if not len(found):
        return found, np.empty(0)
    return found, np.bincount(place, np.concatenate(means)) / np.bincount(place)
