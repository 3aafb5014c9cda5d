"""Runs a plan: interleaved rounds, a probe of the machine's speed around each run, a journal.

Every run of every (cell, allocator, round) ends as one line of the journal, failures included, so
an interrupted plan resumes with exactly the missing runs. An allocator that fails twice in the same
way in a cell is not run there again: the remaining rounds are recorded as failed before. A run that
other work disturbed is repeated, at most twice, and marked if that does not help; the line of the
last run keeps the numbers of those before it. Counting comes after the last round. Invariant: the
journal has at most one line of kind `run` for each (cell, allocator, round); times are as they were
measured, and the probe of the machine's speed is beside them. Thread-safety: one thread.
"""

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nearlab import places
from nearlab.measure import measure
from nearlab.peers import Allocator
from nearlab.plan.cells import Cell, recorded
from nearlab.plan.plan import Plan
from nearlab.results.journal import (
    Journal,
    JournalError,
    Record,
    newest_unfinished,
    read,
    timelines_of,
)
from nearlab.runs import busy, extras, huge_pages, probe, work
from nearlab.runs.interleave import Step, machine, schedule, touch_memory
from nearlab.runs.progress import Watch
from nearlab.runs.work import Bench, Outcome

FORMAT = 1
_GIVE_UP_AFTER = 2  # equal failures in a row after which a case is not tried again
_REPEATS = 2  # of a run that other work disturbed
_LINE_EVERY_S = 10.0  # seconds between two lines of progress if there is no terminal
_SHOWN = 2000  # characters of what a failed run printed


@dataclass(frozen=True, slots=True)
class Extra:
    """Something counted after the rounds, once for a cell and an allocator."""

    kind: str  # of its record: count, instructions, timeline
    case: Cell
    allocator: Allocator

    def text(self) -> str:
        return f"{self.kind}: {self.case.name}, {self.allocator.label}"


@dataclass(slots=True)
class _Past:
    """The journal's records of a (cell, allocator)."""

    done: set[int | str] = field(default_factory=set)  # rounds, and kinds of extras
    failures: list[str] = field(default_factory=list)  # the latest equal failures in a row

    def add(self, number: int, failure: str | None) -> None:
        self.done.add(number)
        if failure is None or (self.failures and _kind(failure) != _kind(self.failures[0])):
            self.failures = []
        if failure is not None:
            self.failures.append(failure)

    @property
    def hopeless(self) -> str | None:
        """Returns the failure that is expected to recur, or None."""
        return self.failures[0] if len(self.failures) >= _GIVE_UP_AFTER else None


def _kind(failure: str) -> str:
    """A failure without its details, which may hold addresses."""
    return failure.removeprefix("failed before: ").partition(":")[0]


class Driver:
    """One plan on this machine."""

    def __init__(
        self,
        plan: Plan,
        cells: Sequence[Cell],
        allocators: Sequence[Allocator],
        bench: Bench,
        *,
        counted: Sequence[str] = (),
    ):
        """`counted` are kinds of records that come after the rounds: count, instructions."""
        self.plan, self.cells, self.allocators = plan, list(cells), list(allocators)
        self._bench, self._counted = bench, counted
        self._repeats_left = 0  # so that a machine that is always busy ends, too
        self._past: dict[tuple[str, str], _Past] = {}
        self._empties: set[str] = set()  # allocators whose empty process was measured
        self._timelines = Path()  # the folder beside the journal

    def start(self, results: Path) -> Journal:
        """Starts a new result."""
        journal = Journal.create(results / self.plan.name)
        journal.write(self._plan_line())
        return journal

    def resume(self, results: Path) -> Journal:
        """Continues the newest unfinished result of this plan and these choices."""
        path = newest_unfinished(results / self.plan.name, self._is_same)
        if path is None:
            raise JournalError(
                f"no unfinished result of plan {self.plan.name} with these choices in "
                f"{results / self.plan.name}"
            )
        journal = Journal.reopen(path)
        records = read(path)
        changed = self._changed(records[0])
        if changed:
            raise JournalError(f"{path}: {changed} is another now; run without --resume")
        for record in records[1:]:
            self._remember(record)
        journal.write({"kind": "resume", "date": _now(), "machine": machine()})
        return journal

    def run(self, journal: Journal) -> None:
        """Runs everything that the journal lacks, and writes its end."""
        steps = self._missing_steps()
        self._repeats_left = len(steps) // 10 + _REPEATS
        self._timelines = timelines_of(journal.path)
        complete = False
        try:
            for allocator in self.allocators:
                if allocator.available and allocator.name not in self._empties:
                    record = extras.empty_process(allocator)
                    journal.write(record)
                    self._remember(record)
            with Watch(len(steps), line_every_s=_LINE_EVERY_S) as watch:
                for step in steps:
                    watch.before(step)
                    record = self._do(step)
                    journal.write(record)
                    self._remember(record)
                    watch.after(step, record["failure"] or "done")
            complete = True
        finally:
            journal.write({"kind": "end", "date": _now(), "complete": complete})

    def left(self) -> int:
        """How many runs and counts are missing."""
        return len(self._missing_steps())

    def _missing_steps(self) -> list[Step[Cell] | Extra]:
        ready = [cell for cell in self.cells if cell.missing is None]
        there = [allocator for allocator in self.allocators if allocator.available]
        last = max((cell.rounds for cell in ready), default=0)
        steps: list[Step[Cell] | Extra] = list(
            schedule(
                ready,
                there,
                range(1 - self.plan.keys.warm_up, last + 1),
                lambda number, cell, one: number <= cell.rounds and cell.takes(one.name),
            )
        )
        steps += [
            Extra(kind, cell, allocator)
            for kind in self._counted
            for cell in ready
            for allocator in there
            if cell.takes(allocator.name) and not (kind == "instructions" and cell.real_program)
        ]
        steps += [
            Extra("timeline", cell, allocator)
            for cell in ready
            for allocator in there
            if recorded(self.plan, cell, allocator.name)
        ]
        return [step for step in steps if not self._is_done(step)]

    def _is_done(self, step: Step[Cell] | Extra) -> bool:
        done = self._of(step.case.name, step.allocator.name).done
        return (step.round if isinstance(step, Step) else step.kind) in done

    def _of(self, cell: str, allocator: str) -> _Past:
        return self._past.setdefault((cell, allocator), _Past())

    def _remember(self, record: Record) -> None:
        if record["kind"] == "run":
            past = self._of(record["cell"], record["allocator"])
            past.add(record["round"], record["failure"])
            if record["failure"] is None:
                self._bench.answers.setdefault(record["cell"], work.answer(record["result"]))
        elif record["kind"] == "empty":
            self._empties.add(record["allocator"])
        elif record["kind"] in ("count", "instructions", "timeline"):
            self._of(record["cell"], record["allocator"]).done.add(record["kind"])

    def _do(self, step: Step[Cell] | Extra) -> Record:
        hopeless = self._of(step.case.name, step.allocator.name).hopeless
        if isinstance(step, Step):
            return self._skipped(step, hopeless) if hopeless else self._run(step)
        if hopeless:
            return extras.empty(step.kind, step.case, step.allocator, f"failed before: {hopeless}")
        if step.kind == "timeline":
            touch_memory()
        with huge_pages.during(step.case.huge_pages):
            return self._extra(step)

    def _extra(self, step: Extra) -> Record:
        if step.kind == "count":
            reference = extras.harness_reference(step.case, self.allocators)
            is_reference = step.allocator.name == reference
            return extras.count(self._bench, step.case, step.allocator, is_reference)
        if step.kind == "timeline":
            return extras.timeline(self._bench, step.case, step.allocator, self._timelines)
        return extras.instructions(step.case, step.allocator)

    def _run(self, step: Step[Cell]) -> Record:
        """Runs the step, again if other work disturbed it; the last run counts, and is marked."""
        discarded: list[Record] = []
        while True:
            started = _now()
            touch_memory()
            (outcome, disturbed), probe_s = probe.around(lambda: self._watched(step))
            calm = disturbed is None or outcome.failure is not None
            if calm or len(discarded) == _REPEATS or self._repeats_left == 0:
                break
            self._repeats_left -= 1
            discarded.append({"disturbed": disturbed, "metrics": outcome.metrics})
        found = self._record(step, outcome, started, probe_s)
        return found | {"disturbed": disturbed, "discarded": discarded}

    def _watched(self, step: Step[Cell]) -> tuple[Outcome, str | None]:
        before = busy.read()
        with huge_pages.during(step.case.huge_pages):
            outcome = self._bench.run(step.case, step.allocator)
        return outcome, busy.disturbance(step.case, outcome.sample, before, busy.read())

    def _skipped(self, step: Step[Cell], failure: str) -> Record:
        outcome = Outcome({}, f"failed before: {failure}", None, None)
        return self._record(step, outcome, _now(), None)

    def _record(
        self, step: Step[Cell], outcome: Outcome, started: str, probe_s: float | None
    ) -> Record:
        record = {
            "kind": "run",
            "cell": step.case.name,
            "allocator": step.allocator.name,
            "round": step.round,
            "place": step.place,
            "started": started,
            "probe_s": probe_s,
            "metrics": outcome.metrics,
            "failure": outcome.failure,
            "result": outcome.result,
            "sample": outcome.sample.to_json() if outcome.sample else None,
        }
        if outcome.failure and outcome.sample:
            record["stdout"] = outcome.sample.stdout[-_SHOWN:]
            record["stderr"] = outcome.sample.stderr[-_SHOWN:]
        return record

    def _plan_line(self) -> Record:
        keys = self.plan.keys
        return {
            "kind": "plan",
            "format": FORMAT,
            "plan": self.plan.name,
            "plan_hash": self.plan.hash,
            "plan_toml": self.plan.text,
            "title": keys.title or self.plan.name,
            "description": keys.description,
            "date": _now(),
            "machine": machine(),
            "commit": _commit(),
            "probe_s": probe.reference(),
            "rounds": max(cell.rounds for cell in self.cells),
            "warm_up": keys.warm_up,
            "allocators": [_described(allocator) for allocator in self.allocators],
            "cells": [cell.to_json() for cell in self.cells],
            "programs": _digest_of_programs(self.cells),
        }

    def _is_same(self, line: Record) -> bool:
        """True if plan, cells, rounds and allocators are the same."""
        return (
            line["plan_hash"] == self.plan.hash
            and line["cells"] == [cell.to_json() for cell in self.cells]
            and [one["name"] for one in line["allocators"]] == [one.name for one in self.allocators]
        )

    def _changed(self, line: Record) -> str | None:
        """Returns what changed since the start of the result: the programs or an allocator."""
        if line["programs"] != _digest_of_programs(self.cells):
            return "a workload"
        for before, allocator in zip(line["allocators"], self.allocators, strict=True):
            if before != _described(allocator):
                return allocator.name
        return None


def _described(allocator: Allocator) -> dict[str, Any]:
    """Returns an allocator's part of the plan line; the digest distinguishes builds of one version.
    """
    described = {"label": allocator.label, "missing": None} | allocator.to_json()
    if allocator.library and allocator.available:
        described["digest"] = hashlib.sha256(allocator.library.read_bytes()).hexdigest()[:16]
    return described


def _digest_of_programs(cells: Sequence[Cell]) -> str:
    """Returns a digest of the built workloads and launcher."""
    paths = {Path(cell.argv[0]) for cell in cells if cell.argv} | {measure.launcher()}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:16]


def _commit() -> str | None:
    """Returns the revision of this repository, with `-dirty` if files changed; None without a
    repository."""
    if places.INSTALLED:
        return None
    git = ("git", "-C", str(places.ROOT))
    try:
        asked = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return asked.stdout.strip() or None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
