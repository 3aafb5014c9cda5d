"""Runs the demo's programs under two allocators in turn, and judges every run.

Invariant: within a round both allocators run a program one after the other, and who is first alternates; round 0 warms up
and is the run that asks the allocator to name itself. A run counts only when it did its work, gave the answer every other
run gave, left nothing running, and every process of it was served by the allocator it was meant for.
Touched by: demo.py; one thread.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from . import measure
from .programs.base import Allocator, Program, Run


@dataclass(frozen=True, slots=True)
class Step:
    """One run that is to be done."""

    round: int
    program: Program
    allocator: Allocator


@dataclass(frozen=True, slots=True)
class Record:
    """One run that was done. `problem` says why it does not count, None when it does."""

    step: Step
    run: Run
    problem: str | None

    def to_json(self) -> dict:
        step, run = self.step, self.run
        return {
            "kind": "run",
            "program": step.program.name,
            "allocator": step.allocator.name,
            "round": step.round,
            "wall_s": run.wall_s,
            "answer": run.answer,
            "problem": self.problem,
            "sample": run.sample.to_json() if run.sample else None,
        }


def schedule(programs: Sequence[Program], allocators: Sequence[Allocator], rounds: int) -> list[Step]:
    """All steps in order: the warm-up, then `rounds` rounds, each starting one program and one allocator further."""
    return [
        Step(number, program, allocator)
        for number in range(rounds + 1)
        for program in _rotated(programs, number)
        for allocator in _rotated(allocators, number)
    ]


def _rotated(items: Sequence, by: int) -> list:
    at = by % len(items)
    return [*items[at:], *items[:at]]


@dataclass(slots=True)
class Runner:
    """Does steps and remembers the right answers; a program with a problem is not run again."""

    answers: dict[str, str] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    stats_lines: list[str] = field(default_factory=list)

    def do(self, steps: Sequence[Step], before: Callable[[Step], None]) -> Iterator[Record]:
        """Yields a record for each step that is done; `before` hears of it first."""
        for step in steps:
            if step.program.name in self.failed:
                continue
            before(step)
            run = self._run(step)
            problem = self._problem(step, run)
            if problem:
                self.failed.add(step.program.name)
            yield Record(step, run, problem)

    def _run(self, step: Step) -> Run:
        asks = step.round == 0 and step.allocator.stats_line
        try:
            return step.program.run(step.allocator, {"NEARMALLOC_STATS": "1"} if asks else {})
        except (measure.MeasureError, OSError) as error:
            return Run(None, 0.0, "", str(error))

    def _problem(self, step: Step, run: Run) -> str | None:
        if run.complaint or run.sample is None:
            return run.complaint or "not measured"
        return self._wrong_allocator(step, run.sample) or self._wrong_output(step, run)

    def _wrong_allocator(self, step: Step, sample: measure.Sample) -> str | None:
        served = {process.served_by for process in sample.processes} or {"unknown"}
        if served != {step.allocator.served_by}:
            return f"served by {', '.join(sorted(served))} instead of {step.allocator.served_by}"
        if step.round == 0 and step.allocator.stats_line:
            line = re.search(step.allocator.stats_line, sample.stderr, re.MULTILINE)
            if not line:
                return f"{step.allocator.name} did not name itself at exit"
            self.stats_lines.append(line.group())
        return None

    def _wrong_output(self, step: Step, run: Run) -> str | None:
        if not run.answer:
            return "no output"
        if run.sample and run.sample.left_running:
            return f"{run.sample.left_running} processes left running"
        if run.answer != self.answers.setdefault(step.program.name, run.answer):
            return "wrong output: not that of the first run"
        return None
