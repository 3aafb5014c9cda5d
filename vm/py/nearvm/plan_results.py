"""The runs of a plan, and the file that keeps their verdicts, line by line.

Invariant: a verdict is on disk before the next guest starts. A result is resumed only if plan,
seeds and libraries are those it began with; only runs that passed are not run again.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nearlab.peers import Allocator
from nearlab.results import journal
from nearlab.results.journal import Journal, JournalError
from nearlab.runs import interleave
from nearvm import folders, machine, medians, runs
from nearvm.machine import Machine
from nearvm.plans import Plan
from nearvm.runs import Run

_SAME = ("text", "seeds", "allocators")


@dataclass(slots=True)
class Result:
    """The head says what ran, where and when."""

    head: dict[str, Any]
    verdicts: list[dict[str, Any]] = field(default_factory=list)


def folder_of(plan: Plan) -> Path:
    return folders.files() / "plans" / plan.name


def planned(plan: Plan, seeds: int) -> list[Run]:
    """One guest for each topology, case and allocator."""
    keys = plan.keys
    allocators = ",".join(keys.allocators)
    return [
        one for where in keys.topologies for one in runs.plan(where, keys.cases, allocators, seeds)
    ]


def begin(
    plan: Plan, guests: Machine, wanted: Sequence[Run], folder: Path, resume: bool
) -> tuple[Journal, Result]:
    """The open file, and the result so far: the passed verdicts of an unfinished file."""
    head = _head(plan, guests, wanted)
    folder.mkdir(parents=True, exist_ok=True)
    before = None
    if resume:
        before = journal.newest_unfinished(
            folder, lambda first: all(first.get(key) == head[key] for key in _SAME)
        )
    if before is None:
        made = Journal.create(folder)
        made.write(head)
        return made, Result(head)
    made = Journal.reopen(before)
    found = _result(journal.read(before))
    return made, Result(found.head, medians.passed(found.verdicts))


def execute(
    guests: Machine, wanted: Sequence[Run], kept: Journal, result: Result
) -> Iterator[dict[str, Any]]:
    """Runs what is not in the result yet; yields each verdict after it is on disk."""
    groups = medians.grouped(result.verdicts)
    for one in wanted:
        before = groups.get((one.topology.name, one.case.name, one.allocator.name), [])
        if len(before) == len(one.seeds):
            continue
        result.verdicts = [each for each in result.verdicts if each not in before]
        for made in runs.execute(guests, one):
            kept.write({"kind": "verdict"} | made)
            result.verdicts.append(made)
            yield made
    kept.write({"kind": "end", "complete": True})


def newest(folder: Path) -> Result:
    """The newest result in the folder. Raises JournalError if there is none."""
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise JournalError(f"no results in {folder}")
    return _result(journal.read_result(paths[-1]))


def _result(records: Sequence[dict[str, Any]]) -> Result:
    """If a run has two verdicts after a resume, the last one counts."""
    found = {}
    for each in records:
        if each["kind"] == "verdict":
            key = tuple(each[part] for part in ("topology", "case", "allocator", "seed"))
            found[key] = {name: value for name, value in each.items() if name != "kind"}
    return Result(records[0], list(found.values()))


def _head(plan: Plan, guests: Machine, wanted: Sequence[Run]) -> dict[str, Any]:
    return {
        "kind": "plan",
        "format": journal.FORMAT,
        "name": plan.name,
        "text": plan.text,
        "seeds": len(wanted[0].seeds),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": interleave.machine(),
        "qemu": machine.qemu_version(guests),
        "allocators": {one.allocator.name: _described(one.allocator) for one in wanted},
    }


def _described(one: Allocator) -> dict[str, Any]:
    """`digest` distinguishes builds of a library."""
    digest = ""
    if one.library is not None:
        digest = hashlib.sha256(one.library.read_bytes()).hexdigest()[:16]
    return {"label": one.label, "version": one.version, "missing": one.missing, "digest": digest}
