"""Runs a cell once under an allocator and judges the run: did it do its work, and on which malloc.

Invariant: all runs of a cell gave the same answer (a checksum, or what a real program prints); a
run counts only when the allocator it was meant for served it, by the link map of its processes and,
for a workload, by its own output. Every error is recorded as the failure of an Outcome.
Thread-safety: one thread (the driver).
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nearlab import peers, programs
from nearlab.measure import measure, proof
from nearlab.measure.measure import Sample
from nearlab.peers import Allocator
from nearlab.plan.cells import Cell
from nearlab.programs import install
from nearlab.programs.base import PrepareError, Program, last_line
from nearlab.runs.served import wrong_allocator

_OVERLAP = 3  # exit status of a workload that found a changed block


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run. `metrics` is empty if the run failed."""

    metrics: dict[str, float]
    failure: str | None
    result: dict[str, Any] | None
    sample: Sample | None


@dataclass(slots=True)
class Bench:
    """The state for running cells: prepared real programs, and the answers seen so far."""

    answers: dict[str, str] = field(default_factory=dict)  # by cell
    programs: dict[str, Program] = field(default_factory=dict)

    def prepare(
        self,
        names: Sequence[str],
        folder: Path,
        quick: bool,
        given: Mapping[str, Program] | None = None,
    ) -> dict[str, str]:
        """Prepares real programs, the lab's and those given, in `folder`. Returns why others are
        missing."""
        missing = {}
        known = {**programs.by_name(), **(given or {})}
        for name in dict.fromkeys(names):
            program = known[name]
            reason = install.provide(program)
            try:
                if reason is None:
                    program.prepare(Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder)), quick)
                    self.programs[name] = program
            except (PrepareError, OSError) as error:
                reason = str(error)
            if reason is not None:
                missing[name] = reason
        return missing

    def run(self, cell: Cell, allocator: Allocator) -> Outcome:
        """One run."""
        try:
            if cell.real_program:
                outcome = _run_program(self.programs[cell.real_program], allocator)
            else:
                outcome = _run_workload(cell, allocator)
        except (measure.MeasureError, OSError) as error:
            return Outcome({}, str(error), None, None)
        failure = outcome.failure or self._wrong_answer(cell, outcome.result)
        return replace(outcome, metrics={}, failure=failure) if failure else outcome

    def _wrong_answer(self, cell: Cell, result: dict[str, Any] | None) -> str | None:
        found = answer(result)
        if not found:
            return "no checksum"
        if cell.name not in self.answers:
            self.answers[cell.name] = self._answer_of_glibc(cell) or found
        expected = self.answers[cell.name]
        return None if found == expected else f"checksum: {found} instead of {expected}"

    def _answer_of_glibc(self, cell: Cell) -> str:
        """Returns a real program's answer under glibc; empty if it has none. Only this checks such
        a program."""
        if cell.real_program is None:
            return ""
        outcome = _run_program(self.programs[cell.real_program], peers.find("glibc"))
        return "" if outcome.failure else answer(outcome.result)


def answer(result: dict[str, Any] | None) -> str:
    """Returns the answer on which all runs of a cell must agree."""
    return str((result or {}).get("checksum") or "")


def _run_workload(cell: Cell, allocator: Allocator) -> Outcome:
    sample = measure.run_child(
        cell.argv,
        preload=allocator.library,
        env=dict(allocator.environment) | cell.environment,
        timeout=cell.timeout_s,
    )
    result = _read_result(sample)
    failure = _ending(sample)
    if failure is None and sample.served_by != "unknown":  # else tracing was refused
        failure = wrong_allocator(sample, allocator)
    if result is None:
        return Outcome({}, failure or "unreadable result", None, sample)
    failure = failure or _wrong_claim(result, allocator)
    return Outcome({} if failure else metrics(sample, result), failure, result, sample)


def _run_program(program: Program, allocator: Allocator) -> Outcome:
    run = program.run(allocator, dict(allocator.environment))
    result = {"name": program.name, "seconds": run.wall_s, "checksum": _digest(run.answer)}
    sample, failure = run.sample, run.complaint
    if sample is None:
        return Outcome({}, failure or "not measured", result, None)
    if failure is None and sample.left_running:
        failure = f"left {sample.left_running} processes running"
    failure = failure or wrong_allocator(sample, allocator)
    return Outcome({} if failure else metrics(sample, result), failure, result, sample)


def _digest(text: str) -> str:
    """Returns a short digest of the text; empty for an empty text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def _read_result(sample: Sample) -> dict[str, Any] | None:
    """Returns the last line of the output if that is a JSON object."""
    try:
        result = json.loads((sample.stdout.strip().splitlines() or [""])[-1])
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _ending(sample: Sample) -> str | None:
    if sample.exit_code == _OVERLAP:
        return "checksum: a block was not as it was left"
    failure = sample.failure()
    return failure if failure is None else failure + last_line(sample.stderr)


def _wrong_claim(result: dict[str, Any], allocator: Allocator) -> str | None:
    claimed = Path(str(result.get("malloc_from"))).resolve()
    if allocator.library is None:
        right = proof.allocator_name(claimed) == peers.switched(allocator.name)[0]
    else:
        right = claimed == allocator.library.resolve()
    return None if right else f"says that {claimed} serves it"


def metrics(sample: Sample, result: dict[str, Any]) -> dict[str, float]:
    """Returns the numbers of a good run, with times as they were measured."""
    numbers = {key: float(value) for key, value in result.items() if _is_number(value)}
    for key, values in result.items():
        if key.endswith("_ns") and isinstance(values, dict):
            numbers |= _latencies(key.removesuffix("_ns"), values)
    seconds = numbers.get("seconds", sample.wall_s)
    if numbers.get("operations") and seconds > 0:
        numbers["ops_per_s"] = numbers["operations"] / seconds
    return numbers | {
        "seconds": seconds,
        "wall_s": sample.wall_s,
        "cpu_s": sample.cpu_s,
        "user_s": sample.user_s,
        "sys_s": sample.sys_s,
        "memory_kib": float(sample.peak_total_kib),
        "peak_rss_kib": float(sample.peak_rss_kib),
        "mean_rss_kib": float(sample.mean_rss_kib),
        "pte_kib": float(sample.peak_pte_kib),
        "minor_faults": float(sample.minor_faults),
        "major_faults": float(sample.major_faults),
        "context_switches": float(sample.context_switches),
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _latencies(call: str, values: dict[str, Any]) -> dict[str, float]:
    """`malloc`, {"p50": 20, "samples": 9} becomes malloc_p50_ns, malloc_samples."""
    return {
        f"{call}_{key}" if key == "samples" else f"{call}_{key}_ns": float(value)
        for key, value in values.items()
        if _is_number(value)
    }
