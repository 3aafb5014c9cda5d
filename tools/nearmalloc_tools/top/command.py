"""`nearmalloc top PID|NAME...`: a live view of processes, or one picture of them."""

import contextlib
import json
import sys
import time
from dataclasses import asdict
from typing import Any

from rich.live import Live

from nearmalloc_tools.errors import Misuse, Refused
from nearmalloc_tools.top.census import Census, Reader
from nearmalloc_tools.top.live import Screenful
from nearmalloc_tools.top.process import Ended, Process, find_layout, named
from nearmalloc_tools.top.threads import Threads
from nearmalloc_tools.top.view import History, show


def _readers(targets: list[str]) -> list[Reader]:
    """One for each process; a name may mean processes of which some are not under nearmalloc."""
    readers: list[Reader] = []
    for target in targets:
        refusals: list[Refused] = []
        before = len(readers)
        for pid in named(target):
            try:
                process = Process(pid)
                readers.append(Reader(process, find_layout(process), Threads(process)))
            except Refused as refusal:
                refusals.append(refusal)
        if len(readers) == before:
            raise refusals[0]
    return readers


def _as_json(census: Census) -> dict[str, Any]:
    return asdict(census) | {
        "free_share": census.free_share,
        "classes": [
            asdict(each) | {"live_bytes": each.live_bytes, "free_bytes": each.free_bytes}
            for each in census.classes
            if each.spans > 0
        ],
    }


def _once(readers: list[Reader], as_json: bool) -> None:
    censuses = [reader.take() for reader in readers]
    if as_json:
        print(json.dumps([_as_json(census) for census in censuses], indent=1))
        return
    for census in censuses:
        show(census)


def look(watched: list[tuple[Reader, History]]) -> None:
    """Adds a census of each process, and removes those that have ended."""
    for reader, history in list(watched):
        try:
            history.add(reader.take())
        except Ended:
            watched.remove((reader, history))
        except Refused as refusal:  # it changes what is being read, or runs another program now
            history.refused = str(refusal)


def _watch(readers: list[Reader], interval: float) -> None:
    """Ends with the last process, or by Ctrl-C."""
    watched = [(reader, History()) for reader in readers]
    with Live(screen=True, auto_refresh=False) as live:
        while watched:
            begin = time.monotonic()
            look(watched)
            live.update(Screenful([history for _, history in watched]), refresh=True)
            time.sleep(max(interval - (time.monotonic() - begin), 0.05))


def top(targets: list[str], once: bool, as_json: bool, interval: float) -> None:
    """Shows one picture of the processes, or pictures until the user interrupts."""
    if as_json and not once:
        raise Misuse("--json needs --once")
    if not once and not sys.stdout.isatty():
        raise Refused("the live view needs a terminal; --once prints one picture")
    readers = _readers(targets)
    if once:
        _once(readers, as_json)
    else:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(readers, interval)
