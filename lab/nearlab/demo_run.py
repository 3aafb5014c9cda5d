"""Runs the demo's programs under two allocators in turn, and judges every run.

Invariant: in a round the two allocators run a program one after the other, and the first one
alternates; round 0 warms up and asks the allocator to name itself. A run counts only when it did
its work, gave the answer that every run of the program gives, left nothing running, and each of
its processes was served by the allocator it was meant for. Thread-safety: one thread.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from . import measure
from .interleave import Step
from .programs.base import Run

# What an allocator prints at exit when it is asked for its statistics.
_NAMES_ITSELF = {"nearmalloc": re.compile(r"^nearmalloc \S+:.*", re.MULTILINE)}


@dataclass(frozen=True, slots=True)
class Record:
    """One run that was done. `failure` says why it does not count, None when it does."""

    step: Step
    run: Run
    failure: str | None

    @property
    def result(self) -> str:
        """The result of the run, in a few words."""
        return self.failure or f"{self.run.wall_s:.2f} s"

    def metrics(self) -> dict[str, float]:
        """What is compared; empty when the run does not count."""
        sample = self.run.sample
        if self.failure or sample is None:
            return {}
        return {
            "seconds": self.run.wall_s,
            "cpu_s": sample.cpu_s,
            "memory_kib": sample.peak_total_kib,
        }

    def to_json(self) -> dict:
        sample = self.run.sample
        record = {
            "kind": "run",
            "case": self.step.case.name,
            "allocator": self.step.allocator.name,
            "round": self.step.round,
            "metrics": self.metrics(),
            "answer": self.run.answer,
            "failure": self.failure,
            "sample": sample.to_json() if sample else None,
        }
        if self.failure and sample:
            record |= {"stdout": sample.stdout[-2000:], "stderr": sample.stderr[-2000:]}
        return record


@dataclass(slots=True)
class Runner:
    """Does steps and remembers the right answers; a program that failed is not run again."""

    answers: dict[str, str] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def do(self, steps: Sequence[Step], before: Callable[[Step], None]) -> Iterator[Record]:
        """Yields a record for each step that is done; `before` hears of it first."""
        for step in steps:
            if step.case.name in self.failed:
                continue
            before(step)
            run = self._run(step)
            failure = self._failure(step, run)
            if failure:
                self.failed.add(step.case.name)
            yield Record(step, run, failure)

    def _run(self, step: Step) -> Run:
        asked = step.round == 0 and step.allocator.name in _NAMES_ITSELF
        try:
            return step.case.run(step.allocator, {"NEARMALLOC_STATS": "1"} if asked else {})
        except (measure.MeasureError, OSError) as error:
            return Run(None, 0.0, "", str(error))

    def _failure(self, step: Step, run: Run) -> str | None:
        if run.complaint or run.sample is None:
            return run.complaint or "not measured"
        if run.sample.left_running:
            return f"left {run.sample.left_running} processes running"
        return _wrong_allocator(step, run.sample) or self._wrong_output(step, run)

    def _wrong_output(self, step: Step, run: Run) -> str | None:
        if not run.answer:
            return "no output"
        if run.answer != self.answers.setdefault(step.case.name, run.answer):
            return "wrong output: not that of the first run"
        return None


def _wrong_allocator(step: Step, sample: measure.Sample) -> str | None:
    wanted = step.allocator.name
    served = {process.served_by for process in sample.processes} or {"unknown"}
    if served != {wanted}:
        return f"served by {', '.join(sorted(served))} instead of {wanted}"
    line = _NAMES_ITSELF.get(wanted)
    if step.round == 0 and line and not line.search(sample.stderr):
        return f"{wanted} did not name itself at exit"
    return None
