"""What a run shows: the table of throughput, and why it is as it is.

Invariant: every table says that its numbers are simulated, on which machine and with which seed.
"""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nearmanycore.symbols import Symbols

_LINES, _PARTS, _OTHERS = 6, 4, 4
_CONSIDERABLE = 0.05


@dataclass(frozen=True, slots=True)
class Measures:
    """The numbers of one run, for each operation of the workload."""

    allocator: str
    processors: int
    mops: float  # millions of operations in a second of virtual time
    near: float
    far: float
    misses: float
    waited_ns: dict[str, float]
    rss_mib: float

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Measures":
        operations = max(1, record["workload"]["operations"])
        counts = record["counts"]
        missed = ("l3", "memory_local", "memory_remote", "transfer_near", "transfer_far")
        waits = ("lines", "locks", "address_space", "processor")
        return cls(
            record["request"]["allocator"],
            record["request"]["processors"],
            operations / record["workload"]["seconds"] / 1e6,
            counts["transfer_near"] / operations,
            counts["transfer_far"] / operations,
            sum(counts[each] for each in missed) / operations,
            {each: counts[f"waited_{each}"] / operations for each in waits},
            record["rss_peak_bytes"] / 2**20,
        )


def title(record: dict[str, Any]) -> str:
    asked = record["request"]
    return f"{asked['workload']}, simulated on {asked['machine']}, seed {asked['seed']}"


def show_table(out: Console, records: list[dict[str, Any]]) -> None:
    """Throughput of each allocator on each number of processors."""
    table = Table(title=title(records[0]), title_justify="left")
    table.add_column("allocator")
    columns = (
        "processors",
        "Mop/s",
        "scaling",
        "misses/op",
        "near/op",
        "far/op",
        "wait/op ns: lines",
        "locks",
        "address space",
        "processor",
        "peak MiB",
    )
    for column in columns:
        table.add_column(column, justify="right")
    first: dict[str, float] = {}
    for measures in map(Measures.of, records):
        alone = first.setdefault(measures.allocator, measures.mops / measures.processors)
        table.add_row(
            measures.allocator,
            str(measures.processors),
            f"{measures.mops:.1f}",
            f"{measures.mops / alone:.1f}",
            f"{measures.misses:.2f}",
            f"{measures.near:.2f}",
            f"{measures.far:.2f}",
            *(f"{value:.0f}" for value in measures.waited_ns.values()),
            f"{measures.rss_mib:.1f}",
        )
    out.print(table)
    out.print("scaling: throughput over that of one processor at the first point", style="dim")


def show_why(out: Console, record: dict[str, Any]) -> None:
    """The lines, locks and calls of one run that were waited for most."""
    symbols = Symbols.of(record)
    asked = record["request"]
    out.print(f"\nwhy: {asked['allocator']} on {asked['processors']} processors (simulated)")
    lines = [line for line in record["lines"] if line["parts"]][:_LINES]
    symbols.look_up(site for line in lines for part in line["parts"] for site in part["sites"])
    for line in lines:
        for text in line_texts(symbols, line):
            out.print(escape(text), soft_wrap=True, highlight=False)
    for lock in [lock for lock in record["locks"] if lock["contended"]][:_OTHERS]:
        where = symbols.data(int(lock["address"], 16)) or lock["address"]
        text = (
            f"  {lock['kind']} {where}: taken {lock['taken']} times, waited for "
            f"{lock['contended']} times, {_us(lock['waited'])}; {symbols.place(lock['site'])}"
        )
        out.print(escape(text), soft_wrap=True, highlight=False)
    for call in sorted(record["calls"], key=lambda call: -call["ns"])[:_OTHERS]:
        text = (
            f"  {call['name']}: {call['count']} calls, {_us(call['ns'])}, of which "
            f"{_us(call['waited'])} waiting for the address space"
        )
        out.print(escape(text), soft_wrap=True, highlight=False)


def line_texts(symbols: Symbols, line: dict[str, Any]) -> list[str]:
    """A contended cache line: what lies there, and which code touches it from where."""
    transfers = line["transfers_near"] + line["transfers_far"]
    kind = "false sharing" if is_falsely_shared(line["parts"]) else "shared"
    texts = [
        f"  cache line {line['address']}: {kind}, {transfers} transfers "
        f"({line['transfers_far']} far), {_us(line['waited'])}"
    ]
    for part in sorted(line["parts"], key=lambda part: -part["waited"])[:_PARTS]:
        callers = " < ".join(str(symbols.place(site)) for site in part["sites"])
        texts.append(
            f"    {part_name(symbols, line, part)}: {part['kind']} x {part['count']} by "
            f"{len(part['processors'])} processors, {_us(part['waited'])}: {callers}"
        )
    return texts


def part_name(symbols: Symbols, line: dict[str, Any], part: dict[str, Any]) -> str:
    """The global or the heap block that the part of a line belongs to."""
    address = int(line["address"], 16) + part["offset"]
    for block in line["blocks"]:
        begin = int(block["address"], 16)
        if begin <= address < begin + block["bytes"]:
            made = str(symbols.place(block["sites"][0])) if block["sites"] else "?"
            return f"byte {address - begin} of a block of {block['bytes']} from {made}"
    return symbols.data(address, part["bytes"]) or f"{address:#x}"


def is_falsely_shared(parts: list[dict[str, Any]]) -> bool:
    """Whether processors wait for a line because of bytes that do not overlap: of two places in it,
    one is written, and each has a considerable part of the line's misses."""
    least = _CONSIDERABLE * sum(part["count"] for part in parts)
    kept = [part for part in parts if part["count"] >= least]
    return any(
        _are_apart(a, b)
        and (a["kind"] != "read" or b["kind"] != "read")
        and len(set(a["processors"]) | set(b["processors"])) > 1
        for number, a in enumerate(kept)
        for b in kept[number + 1 :]
    )


def _are_apart(a: dict[str, Any], b: dict[str, Any]) -> bool:
    first, second = sorted((a, b), key=lambda part: int(part["offset"]))
    return int(first["offset"]) + int(first["bytes"]) <= int(second["offset"])


def _us(ns: float) -> str:
    return f"{ns / 1000:.1f} us"
