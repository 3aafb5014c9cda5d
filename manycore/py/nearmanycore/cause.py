"""What a run waited for most: names the line, the lock or the call, and its share of the time that
the processors have in the measured part of the run.

Invariant: a share is at most 1, although more threads than processors may wait for a lock.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmanycore import report
from nearmanycore.symbols import Symbols


@dataclass(frozen=True, slots=True)
class Cause:
    share: float
    name: str


NONE = Cause(0, "")
# Calls that wait for other threads: what they wait for is a lock, or work of the program.
_WAITING = ("futex", "sched_yield", "nanosleep", "clock_nanosleep")


def processor_ns(record: dict[str, Any]) -> float:
    """The time of all processors in the measured part."""
    ns = record["measured"]["ns"] if "measured" in record else record["virtual_ns"]
    return max(1.0, float(ns) * int(record["processors"]))


def worst_line(record: dict[str, Any], library: Path) -> Cause:
    """The line or the lock that the allocator's code waited for most."""
    symbols, time = Symbols.of(record), processor_ns(record)
    both = [(each["waited_allocator"], kind, each)
            for kind in ("lines", "locks") for each in record[kind]]  # fmt: skip
    waited, kind, worst = max(both, key=lambda each: each[0], default=(0, "", {}))
    if not waited:
        return NONE
    name = _line_name if kind == "lines" else _lock_name
    return Cause(min(1, waited / time), name(symbols, worst, library))


def worst(record: dict[str, Any], library: Path) -> Cause:
    """The same, or a call of the kernel, or the kernel's lock of the address space."""
    time = processor_ns(record)
    calls = [
        Cause(min(1, call["ns"] / time), call["name"])
        for call in record["calls"]
        if not call["name"].startswith(_WAITING)
    ]
    waited = record["counts"]["waited_address_space"] / time
    space = Cause(min(1, waited), "the kernel's lock of the address space")
    return max([worst_line(record, library), space, *calls], key=lambda cause: cause.share)


def _line_name(symbols: Symbols, line: dict[str, Any], library: Path) -> str:
    own = [
        part
        for part in line["parts"]
        if part["sites"] and symbols.path(part["sites"][0]) == library.resolve()
    ]
    if not own:
        return str(line["address"])
    part = max(own, key=lambda part: part["waited"])
    return f"{report.part_name(symbols, line, part)}, {_code(symbols, part['sites'])}"


def _lock_name(symbols: Symbols, lock: dict[str, Any], _: Path) -> str:
    where = symbols.data(int(lock["address"], 16)) or lock["address"]
    return f"{lock['kind']} {where}, {symbols.place(lock['site'])}"


def _code(symbols: Symbols, sites: list[str]) -> str:
    """The first caller that is no function of the C++ library."""
    places = [symbols.place(site) for site in sites]
    own = [place for place in places if not place.function.startswith("std::")]
    return str((own or places)[0])
