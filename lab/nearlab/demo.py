"""The demo: real programs under the system's malloc and under nearmalloc, side by side.

Invariant: it ends with 0 only if every selected program that is available ran, with the right
output, served by the right malloc. Nothing it starts outlives it. Results: a table on stdout,
build/lab/demo.png and build/lab/demo.jsonl.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from . import demo_figure, demo_install, demo_table, interleave, peers, places, programs
from .demo_run import Record, Runner
from .interrupt import ended_by_signals
from .peers import Allocator
from .programs.base import PrepareError, Program
from .progress import Watch

_WIDTH = 80  # what the table needs, and has where stdout is no terminal
_ROUNDS, _QUICK_ROUNDS = 5, 3


def demo(
    rounds: Annotated[
        int | None, typer.Option(min=1, help=f"Counted rounds ({_ROUNDS}; quick: {_QUICK_ROUNDS}).")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run this program; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small inputs: under a minute.")] = False,
) -> None:
    """Runs real programs under glibc's malloc and under nearmalloc and compares them."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    selected = _select(only or [], err)
    allocators = (peers.find("glibc"), peers.find("nearmalloc"))
    for allocator in allocators:
        if allocator.missing:
            err.print(f"demo: {allocator.name}: {allocator.missing}")
            raise typer.Exit(2)
    with ended_by_signals():
        try:
            good = run(selected, allocators, rounds or (_QUICK_ROUNDS if quick else _ROUNDS), quick)
        except KeyboardInterrupt:
            err.print("demo: interrupted; nothing is left running")
            raise typer.Exit(130) from None
    raise typer.Exit(0 if good else 1)


def run(
    selected: Sequence[Program], allocators: Sequence[Allocator], rounds: int, quick: bool
) -> bool:
    """Runs, prints, draws. True if at least one program ran and none failed."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="near-demo-") as folder:
        ready = []
        for program in selected:
            reason = demo_install.provide(program)
            if reason:
                err.print(f"demo: {program.name} is skipped: {reason}")
                continue
            try:
                program.prepare(Path(folder), quick)
                ready.append(program)
            except (PrepareError, OSError) as error:
                failures[program.name] = str(error)
        if not ready:
            err.print("demo: no program could be run")
        records = list(_measure(ready, allocators, rounds, quick)) if ready else []
    baseline, candidate = (allocator.name for allocator in allocators)
    rows = demo_table.rows_of(records, baseline, candidate)
    rows += [
        demo_table.Row(program.name, program.title, (), failures[program.name])
        for program in selected
        if program.name in failures
    ]
    if rows:
        _report(rows, allocators, rounds)
    return bool(records) and not any(row.failure for row in rows)


def _select(names: Sequence[str], err: Console) -> list[Program]:
    """The programs named, each name possibly a list with commas; all when none is."""
    every = programs.all_programs()
    wanted = [name for part in names for name in part.split(",") if name]
    unknown = set(wanted) - {program.name for program in every}
    if unknown:
        there_are = ", ".join(program.name for program in every)
        err.print(f"demo: no program is called {', '.join(sorted(unknown))}; there are {there_are}")
        raise typer.Exit(2)
    return [program for program in every if not wanted or program.name in wanted]


def _measure(
    ready: Sequence[Program], allocators: Sequence[Allocator], rounds: int, quick: bool
) -> Iterator[Record]:
    """Does all runs; each is in the raw results before the next begins."""
    steps = interleave.schedule(ready, allocators, range(rounds + 1))
    raw = places.results_dir() / "demo.jsonl"
    with raw.open("w") as lines, Watch(steps) as watch:
        header = {
            "kind": "start",
            "title": "demo",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": interleave.machine(),
            "rounds": rounds,
            "quick": quick,
            "allocators": [allocator.to_json() for allocator in allocators],
            "cases": {program.name: program.version_line() for program in ready},
        }
        print(json.dumps(header), file=lines, flush=True)
        for record in Runner().do(steps, watch.before):
            print(json.dumps(record.to_json()), file=lines, flush=True)
            watch.after(record.step, record.result)
            if record.failure:
                watch.drop(record.step.case)
            yield record


def _report(rows: Sequence[demo_table.Row], allocators: Sequence[Allocator], rounds: int) -> None:
    out = Console(highlight=False)
    if not out.is_terminal or out.width < _WIDTH:
        out = Console(highlight=False, width=_WIDTH)
    baseline, candidate = (f"{one.label} {_number(one.version)}".strip() for one in allocators)
    machine = interleave.machine()
    subtitle = (
        f"Interleaved rounds: {rounds}, after a warm-up; median ratio and its 95 % interval; "
        f"peak memory = resident + page tables\n{machine['cpu']}, {machine['cpus']} CPUs, "
        f"Linux {machine['kernel']}, {datetime.now(UTC).date()}"
    )
    out.print()
    out.print(
        f"[bold]{candidate} / {baseline}[/]: below 1 is better, in brackets the 95 % interval"
    )
    out.print(demo_table.render(rows))
    for row in rows:
        if row.failure:
            out.print(
                f"{row.name} failed: {row.failure}", markup=False, style="red", soft_wrap=True
            )
    out.print(subtitle, markup=False, style="dim", soft_wrap=True)
    figure = places.results_dir() / "demo.png"
    demo_figure.draw(rows, baseline, candidate, subtitle, figure)
    for path in (figure, figure.with_suffix(".jsonl")):
        if path.exists():
            out.print(_shown(path), markup=False, style="dim", soft_wrap=True)


def _number(version: str) -> str:
    """A version without the name before it: `glibc 2.36` names itself."""
    return version.rpartition(" ")[2]


def _shown(path: Path) -> str:
    """Relative to the repository where it is inside."""
    return str(path.relative_to(places.ROOT) if path.is_relative_to(places.ROOT) else path)
