"""A timeline as a trace that ui.perfetto.dev and chrome://tracing open.

The format is Chrome's JSON: a complete event (X) for an interval, an instant (i) for a point, a
counter (C) for a sample, and metadata (M) for names. Times are microseconds with three decimals, so
no nanosecond is lost. A thread's number is that of its row: the system gives numbers away again.
The events come first in the file, as Perfetto may stop at a key that it does not know, and there is
no displayTimeUnit, by which some versions of it scale the times.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from nearlab.timeline.analysis import Window
from nearlab.timeline.file import INTERVAL, POINT, Row, Timeline

_WORDS = {  # the names of a kind's value and count
    "free_batch": ("epoch", "objects"),
    "epoch_change": ("epoch", "count"),
    "unreclaimed": ("objects", "epoch"),
    "range_query": ("value", "keys"),
}


def write(timeline: Timeline, path: Path, part: Window) -> None:
    """Writes the events in the window, one line each."""
    about = {
        "recorded_by": "nearmalloc timeline",
        "dropped_events": timeline.dropped,
        "threads_without_row": timeline.threads - len(timeline.rows),
    }
    with path.open("w", encoding="utf-8") as out:
        out.write('{"traceEvents":[\n')
        for number, event in enumerate(_events(timeline, part)):
            out.write((",\n" if number else "") + event)
        out.write(f'\n],"otherData":{json.dumps(about)}}}\n')


def _events(timeline: Timeline, part: Window) -> Iterator[str]:
    process = timeline.process
    yield _metadata("process_name", process, 0, name=timeline.path.name)
    for number, row in enumerate(timeline.rows):
        thread = number + 1
        yield _metadata("thread_name", process, thread, name=row.name)
        yield _metadata("thread_sort_index", process, thread, sort_index=thread)
        yield from _of_row(timeline, row, f'"pid":{process},"tid":{thread}', part)


def _metadata(what: str, process: int, thread: int, **arguments: str | int) -> str:
    return json.dumps(
        {"ph": "M", "name": what, "pid": process, "tid": thread, "args": arguments},
        separators=(",", ":"),
    )


def _of_row(timeline: Timeline, row: Row, place: str, part: Window) -> Iterator[str]:
    names = [json.dumps(name) for name in timeline.kinds]
    counters = [json.dumps(f"{name}, {row.name}") for name in timeline.kinds]
    words = [_WORDS.get(name, ("value", "count")) for name in timeline.kinds]
    events = row.events.within(part.begin, part.end)
    columns = (getattr(events, name).tolist() for name in events.__slots__)
    for begin, length, kind, shape, value, count in zip(*columns, strict=True):
        first, second = words[kind]
        arguments = f'"args":{{"{first}":{value},"{second}":{count}}}'
        common = f'"ts":{_us(begin)},{place}'
        if shape == INTERVAL:
            yield f'{{"ph":"X","name":{names[kind]},"dur":{_us(length)},{common},{arguments}}}'
        elif shape == POINT:
            yield f'{{"ph":"i","s":"t","name":{names[kind]},{common},{arguments}}}'
        else:
            yield f'{{"ph":"C","name":{counters[kind]},{common},"args":{{"{first}":{value}}}}}'


def _us(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    whole, rest = divmod(abs(nanoseconds), 1000)
    return f"{sign}{whole}.{rest:03}"
