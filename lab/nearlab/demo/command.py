"""The command `./near demo`: memory after a peak, then real programs, beside glibc's malloc.

Invariant: it ends with 0 only if all that was chosen and is installed ran, with the right output,
served by the right malloc. Nothing it starts outlives it. The tables and the sentence of result go
to stdout, everything else to stderr; no line of either is wider than a terminal of 80 columns.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from nearlab import peers
from nearlab.demo import names, peak, short, table, tasks
from nearlab.demo.peak import Peak
from nearlab.demo.table import WIDTH, Row
from nearlab.measure import measure
from nearlab.peers import Allocator
from nearlab.runs.interleave import machine
from nearlab.runs.interrupt import ended_by_signals

_PROMISED_S = 300
_LONG = "20 to 35 min"  # five rounds of the lab's programs
_BUSY = 1.5  # tasks a processor; the build leaves one
_INTERRUPTED = 130


def demo(
    long: Annotated[
        bool, typer.Option("--long", help="The lab's programs with long runs: half an hour.")
    ] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Counted rounds (3 to 5, by time; --long: 5).")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this (peak, python, ...); may be repeated."),
    ] = None,
) -> None:
    """Compares nearmalloc with glibc's malloc, within five minutes: memory after a peak, and time
    and peak memory of real programs."""
    out = Console(highlight=False, width=WIDTH)
    err = Console(stderr=True, highlight=False, markup=False, width=WIDTH)
    try:
        chosen = names.chosen(only or [], long)
        glibc, near = (_allocator(name) for name in ("glibc", "nearmalloc"))
        measure.launcher()
        with ended_by_signals():
            failed = _run((glibc, near), chosen, rounds, long, out, err)
    except (ValueError, measure.MeasureError) as error:
        err.print(f"demo: {error}", soft_wrap=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        err.print("demo: interrupted")
        raise typer.Exit(_INTERRUPTED) from None
    took = seconds_since_start()
    promise = "" if long else f" of the {_duration(_PROMISED_S)} promised"
    err.print(f"demo: finished in {_duration(took)}{promise}")
    if failed:
        raise typer.Exit(1)


def _allocator(name: str) -> Allocator:
    found = peers.find(name)
    if found.missing:
        raise measure.MeasureError(f"{name}: {found.missing}")
    return found


def _run(
    allocators: tuple[Allocator, Allocator],
    chosen: Sequence[str],
    rounds: int | None,
    long: bool,
    out: Console,
    err: Console,
) -> bool:
    """Runs what was chosen and shows it; returns whether something failed, or nothing could run."""
    of_peak = peak.here(allocators) if names.PEAK in chosen else []
    programs = [name for name in chosen if name != names.PEAK]
    _announce(len(of_peak), len(programs), long, err)
    peaks = _show_peaks(of_peak, out) if of_peak else []
    rows = _show_programs(allocators, programs, rounds, long, out, err) if programs else []
    if result := table.sentence(rows, peaks):
        out.print(f"\n{result}", markup=False)
    if not rows and not peaks:
        err.print("demo: no program could be run")
    failures = [one.failure for one in rows] + [one.failure for one in peaks]
    return not failures or any(failures)


def _announce(peaks: int, programs: int, long: bool, err: Console) -> None:
    whole = _LONG if long else f"at most {_duration(_PROMISED_S)} in all"
    err.print(f"demo: nearmalloc beside glibc's malloc, {whole}")
    err.print(f"  install and build: done in {_duration(seconds_since_start())}")
    if os.getloadavg()[0] > _BUSY * machine()["cpus"]:
        err.print("  this machine is busy: times will vary, and there may be fewer rounds")
    if peaks:
        err.print(f"  memory after a peak, {peaks} allocators: {_duration(peaks * peak.RUN_S)}")
    if programs:
        rounds = "5 rounds" if long else f"{table.FEWEST_ROUNDS} to {short.ROUNDS} rounds"
        seconds = _LONG if long else f"about {_duration(short.SECONDS)}"
        err.print(f"  programs, {programs} in {rounds}: {seconds}")


def _show_peaks(allocators: Sequence[Allocator], out: Console) -> list[Peak]:
    out.print(
        f"\n[bold]Memory after a peak[/]: {peak.THREADS} threads fill a cache, and others free\n"
        f"{peak.FREED_PERCENT} % of it at random. Resident memory of the process:"
    )
    peaks: list[Peak] = []
    with Live(console=out, auto_refresh=False, transient=True) as live:  # on a terminal only
        for one in allocators:
            waiting = f" {one.label} runs for {peak.RUN_S} s"
            live.update(Group(table.render_peaks(peaks, peak.REST_S), waiting), refresh=True)
            peaks.append(peak.run(one))
    out.print(table.render_peaks(peaks, peak.REST_S))
    _show_failures([(one.title, one.failure) for one in peaks], out)
    return peaks


def _show_programs(
    allocators: tuple[Allocator, Allocator],
    chosen: Sequence[str],
    rounds: int | None,
    long: bool,
    out: Console,
    err: Console,
) -> list[Row]:
    if long:
        rows, source = _long_rows(chosen, rounds, err)
    else:
        rows, source = _short_rows(allocators, chosen, rounds, err), ""
    if not rows:
        return []
    glibc, near = (f"{one.label} {one.version}" for one in allocators)
    out.print(f"\n[bold]Programs, {near} / {glibc}[/]: below 1 is better")
    out.print(table.render(rows))
    _show_failures([(row.name, row.failure) for row in rows], out)
    counted = max((len(row.comparisons[0].baseline) for row in rows if row.comparisons), default=0)
    about = machine()
    out.print(
        f"Median ratio of {counted} interleaved rounds [lowest, highest round]; worse: in every\n"
        f"round. {about['cpu']}, {about['cpus']} CPUs, Linux {about['kernel']}",
        markup=False,
        style="dim",
    )
    if source:
        out.print(source, markup=False, style="dim")
    return rows


def _short_rows(
    allocators: tuple[Allocator, Allocator],
    chosen: Sequence[str],
    rounds: int | None,
    err: Console,
) -> list[Row]:
    present = []
    for task in (task for task in tasks.TASKS if task.name in chosen):
        if missing := task.missing():
            err.print(f"demo: {task.name} is skipped: {missing} is not installed")
        else:
            present.append(task)
    left = min(short.SECONDS, _PROMISED_S - seconds_since_start())
    return short.rows_of(present, allocators, rounds, left) if present else []


def _long_rows(
    chosen: Sequence[str], rounds: int | None, err: Console
) -> tuple[list[Row], str]:
    from nearlab.demo import long  # needs the lab's packages, which the short demo lacks

    try:
        result = long.run(chosen, rounds, err)
    except long.Refused as error:
        raise measure.MeasureError(str(error)) from None
    return result.rows, result.path


def _show_failures(failures: Sequence[tuple[str, str | None]], out: Console) -> None:
    for name, failure in failures:
        if failure:
            out.print(f"{name} failed: {failure}", markup=False, style="red")


def seconds_since_start() -> float:
    """The age of this process. It includes installing and building: ./near becomes this process by
    exec, which keeps the time of its start (proc(5))."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def _duration(seconds: float) -> str:
    """`45 s`, `4 min 12 s`, `5 min`."""
    minutes, rest = divmod(round(seconds), 60)
    parts = [f"{minutes} min"] * bool(minutes) + [f"{rest} s"] * bool(rest or not minutes)
    return " ".join(parts)
