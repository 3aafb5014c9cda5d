"""Records the allocations of any program into a file, and says what such a file holds.

`record` preloads librecord.so (lab/bench/record.c); every process that starts gets one file, of its
last program: exec begins it anew.
The workload `replay` runs a file again; it is also the one reader of the format, so `info` asks it.
Invariant: a file that exists is never overwritten; the program's exit status is passed on.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearlab import places
from nearlab.measure import stacks
from nearmalloc_tools.amounts import amount

_SHOWN_STACKS, _SHOWN_FRAMES = 10, 6
_FEW_EVENTS = 100_000  # about 10 ms of calls: less than the start of a process varies by

app = typer.Typer(no_args_is_help=True, help="Looks at recorded malloc traces.")


class TraceError(Exception):
    """A bad request or file; the message is one line."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a trace holds. `sizes`: (least, allocations) by power of two; 0 is malloc(0)."""

    process: int
    events: int
    threads: int
    seconds: float
    ended: bool  # False after a kill, _exit or exec; the trace is complete then too
    calls: dict[str, int]
    bytes: int
    peak_live_bytes: int
    peak_live_objects: int
    live_bytes_at_end: int
    live_objects_at_end: int
    remote_frees: int
    unknown_frees: int
    sizes: list[tuple[int, int]]


def _built(path: Path) -> Path:
    if not path.exists():
        raise TraceError(f"{path} is missing: build the lab first")
    return path


def read(file: Path) -> Summary:
    """Returns the summary of a trace. Raises TraceError if the file is no trace, or was cut off."""
    reader = _built(places.workload_dir() / "replay")
    command: list[str | Path] = [reader, "--info", "1", "--file", file]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = result.stderr.strip().removeprefix("replay: ")
        raise TraceError(reason or f"{file}: the reader ended with status {result.returncode}")
    fields = json.loads(result.stdout)
    fields["sizes"] = [(least, count) for least, count in fields["sizes"]]
    return Summary(**fields)


def run_recorded(file: Path, command: list[str], with_stacks: bool = False) -> int:
    """Runs the command with its allocations recorded; its exit status, 128 + signal if killed."""
    file = file.absolute()
    if file.exists():
        raise TraceError(f"{file} exists: choose another name")
    if not file.parent.is_dir():
        raise TraceError(f"{file.parent} is no folder")
    library = _built(places.bench_dir() / "librecord.so")
    others = os.environ.get("LD_PRELOAD")
    environment = os.environ | {
        "NEAR_TRACE": str(file),
        "LD_PRELOAD": f"{library}:{others}" if others else str(library),
    }
    if with_stacks:
        environment["NEAR_TRACE_STACKS"] = "1"
    try:
        status = subprocess.run(command, env=environment, check=False).returncode
    except OSError as error:
        raise TraceError(f"cannot run {command[0]}: {error.strerror}") from None
    if not file.exists():
        raise TraceError(f"nothing was recorded: {command[0]} is static or made no call")
    return 128 - status if status < 0 else status


def files_of(file: Path) -> list[Path]:
    """The file of the first process and those of its children, which are named after it."""
    others = file.parent.glob(f"{file.name}.[0-9]*")
    return [file, *sorted(other for other in others if other.suffix != ".stacks")]


def warning(summary: Summary) -> str:
    """Says that a replay of the trace means nothing; empty if it may mean something."""
    if summary.events >= _FEW_EVENTS:
        return ""
    return f"{summary.events:,} events are too few: the time of a replay means nothing"


def _rows(summary: Summary) -> list[tuple[str, str]]:
    calls = ", ".join(f"{count:,} {name}" for name, count in summary.calls.items() if count)
    ending = "ran to its end" if summary.ended else "ended without exit handlers"
    return [
        ("process", f"{summary.process}, {ending}"),
        ("events", f"{summary.events:,} in {summary.seconds:.3f} s"),
        ("calls", calls),
        ("threads", f"{summary.threads:,}"),
        ("allocated", amount(summary.bytes)),
        ("peak", f"{amount(summary.peak_live_bytes)}, {summary.peak_live_objects:,} objects"),
        ("at the end", f"{amount(summary.live_bytes_at_end)}, {summary.live_objects_at_end:,}"),
        ("freed by another thread", f"{summary.remote_frees:,}"),
        ("freed, never allocated here", f"{summary.unknown_frees:,}"),
    ]


def _histogram(summary: Summary) -> Table:
    table = Table("size", "allocations", "", box=None)
    most = max((count for _, count in summary.sizes), default=1)
    for least, count in summary.sizes:
        end = "" if least == 0 else f" to {2 * least - 1}"
        table.add_row(f"{least}{end}", f"{count:,}", "#" * max(1, round(40 * count / most)))
    return table


def _stacks(file: Path) -> Table:
    table = Table("allocated", "calls", "by", box=None)
    for one in stacks.most(file, _SHOWN_STACKS):
        shown = " < ".join(one.frames[:_SHOWN_FRAMES]) or "all other stacks"
        table.add_row(amount(one.bytes), f"{one.calls:,}", shown)
    return table


def _refuse(error: TraceError) -> typer.Exit:
    typer.echo(f"nearlab: {error}", err=True)
    return typer.Exit(2)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace that `record` made.")],
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Says what a trace holds: events, threads, peak of live bytes, sizes."""
    try:
        summary = read(file)
    except TraceError as error:
        raise _refuse(error) from None
    if as_json:
        fields = {name: getattr(summary, name) for name in Summary.__slots__}
        typer.echo(json.dumps(fields))
        return
    table = Table(show_header=False, box=None)
    for row in _rows(summary):
        table.add_row(*row)
    out = Console(highlight=False)
    out.print(table)
    out.print(_histogram(summary))
    if stacks.file_of(file).is_file():
        out.print(_stacks(file), soft_wrap=True)
    if told := warning(summary):
        out.print(told, style="yellow")


def record(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to; must not exist.")
    ],
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENT]...")],
    with_stacks: Annotated[
        bool, typer.Option("--stacks", help="Also what each call stack allocates (slow).")
    ] = False,
) -> None:
    """Records every allocation of a program, and of the processes it starts, into FILE[.PID]."""
    try:
        status = run_recorded(output, command, with_stacks)
        files = files_of(output)
        summary = read(output)
    except TraceError as error:
        raise _refuse(error) from None
    more = f", and {len(files) - 1} of its other processes" if len(files) > 1 else ""
    typer.echo(f"recorded {summary.events:,} events in {output}{more}", err=True)
    if told := warning(summary):
        typer.echo(f"nearlab: {told}", err=True)
    raise typer.Exit(status)
