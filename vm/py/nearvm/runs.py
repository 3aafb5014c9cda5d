"""Runs: a case on a topology under an allocator, in one guest, once for each seed.

Invariant: each seed ends in its own verdict, which is kept as a file: `pass`, `fail` with the
reasons, or `missing` where the allocator or the counting plugin is not on this machine. If a file
that a guest needs is gone, only that guest's verdicts fail. A wrong choice is a ChoiceError of
one line before any guest starts.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearlab.peers import Allocator
from nearlab.plan import chosen, workloads
from nearvm import cases, counting, folders, machine, topology, verdict
from nearvm.cases import Case
from nearvm.counting import Counter
from nearvm.guest import FACTS, Step
from nearvm.initramfs import InitramfsError
from nearvm.machine import Machine, MachineError, Output
from nearvm.medians import PASS
from nearvm.topology import Topology
from nearvm.verdict import Said

ALL = "all"  # every topology that a case names; every case
FAIL, MISSING = "fail", "missing"
_SHORT = {"near": "nearmalloc", "mimalloc": "mimalloc3"}  # names that the papers' figures use


class ChoiceError(ValueError):
    """A choice of the command line that cannot be run, in one line."""


@dataclass(frozen=True, slots=True)
class Run:
    """One guest."""

    topology: Topology
    case: Case
    allocator: Allocator
    seeds: tuple[int, ...] = (1,)


def plan(where: str, what: Sequence[str], allocators: str = "", seeds: int = 1) -> list[Run]:
    """The runs that were asked for."""
    runs = []
    for case in [cases.load(name) for name in (cases.names() if ALL in what else what)]:
        program = case.binary
        if not program.is_file():
            raise ChoiceError(f"{case.name}: {program} is not built")
        numbers = tuple(range(1, seeds + 1))
        for name in case.keys.topologies if where == ALL else [where]:
            place = topology.load(name)
            runs += [Run(place, case, one, numbers) for one in _allocators(case, allocators)]
    return runs


def _allocators(case: Case, asked: str) -> list[Allocator]:
    names = [name.strip() for name in asked.split(",") if name.strip()] or case.keys.allocators
    names = [_SHORT.get(name, name) for name in names]
    if problem := chosen.problem(names):
        raise ChoiceError(f"--allocators: {problem}")
    return chosen.find(names)


def verdict_folder() -> Path:
    """The folder of the verdicts; a verdict replaces that of the same run before."""
    return folders.files() / "verdicts"


def execute(guests: Machine, one: Run) -> list[dict[str, Any]]:
    """Boots the guest of a run. Returns the verdicts, one for each seed."""
    if missing := one.allocator.missing or counting.missing(one.case):
        return [_kept(one, seed, MISSING, [missing]) for seed in one.seeds]
    with tempfile.TemporaryDirectory(prefix="near-vm-counts-") as folder:
        counter = Counter.of(one.case, one.topology, Path(folder))
        try:
            output = _boot(guests, one, counter)
        except (MachineError, InitramfsError, OSError) as error:
            return [_kept(one, seed, FAIL, [str(error)]) for seed in one.seeds]
        return list(_judged(one, counter, output))


def _boot(guests: Machine, one: Run, counter: Counter) -> Output:
    steps = [*counter.before(), *(_step(one, counter, seed) for seed in one.seeds)]
    return machine.boot(
        guests,
        one.topology,
        steps,
        plugin=counter.plugin(),
        huge_pages=one.case.keys.huge_pages,
        timeout_s=one.case.keys.timeout_s * len(one.seeds),
    )


def _step(one: Run, counter: Counter, seed: int) -> Step:
    case = one.case
    arguments = case.arguments(one.topology)
    if case.keys.workload:
        arguments += counter.arguments()
        known = workloads.options(case.keys.workload)
        arguments += ["--seed", str(seed)] if "seed" in known else []
    elif case.keys.seeded:
        arguments += ["--seed", str(seed)]
    environment = dict(one.allocator.environment) | counter.environment()
    environment |= case.environment(one.topology)
    name = _name(case, seed)
    return Step(name, case.binary, arguments, one.allocator.library, environment, case.limits)


def _name(case: Case, seed: int) -> str:
    return f"{case.name}-{seed}"


def _judged(one: Run, counter: Counter, output: Output) -> Iterator[dict[str, Any]]:
    said = {each.name: each for each in verdict.read(output.said)}
    tail = f"the console ended:\n{output.console}"
    common = _common_problems(one, said, counter)
    counts = counter.read(len(one.seeds))
    conditions = one.case.conditions(one.topology, one.allocator.name)
    for seed, (counted, complaint) in zip(one.seeds, counts, strict=True):
        step = said.get(_name(one.case, seed), Said(_name(one.case, seed)))
        why = common or verdict.problems(step, conditions, counted)
        if complaint and step.failure() is None and not common:
            why = [complaint]  # not also the conditions that lack numbers because of it
        if why and step.status is None:
            why = [*why, tail]
        facts = said[FACTS].result() if FACTS in said else None
        guest = facts and facts | {"boots": output.boots}
        yield _kept(one, seed, FAIL if why else PASS, why, guest, step.result(), counted)


def _common_problems(one: Run, said: Mapping[str, Said], counter: Counter) -> list[str]:
    """The faults of a guest before the case begins: wrong nodes, or a step that failed."""
    facts = said.get(FACTS, Said(FACTS))
    found = facts.result()
    if found is None:
        return [facts.failure() or f"{FACTS} printed no result"]
    online = verdict.cpu_list(str(found.get("online", "")))
    memory = verdict.cpu_list(str(found.get("memory", "")))
    if online != one.topology.online or memory != one.topology.with_memory:
        return [f"the kernel has other nodes than {one.topology.name}: {json.dumps(found)}"]
    failures = [said.get(step.name, Said(step.name)).failure() for step in counter.before()]
    return [failure for failure in failures if failure]


def _kept(
    one: Run,
    seed: int,
    outcome: str,
    why: Sequence[str],
    guest: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    counts: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes the verdict to its file and returns it."""
    made = {
        "topology": one.topology.name,
        "case": one.case.name,
        "allocator": one.allocator.name,
        "seed": seed,
        "outcome": outcome,
        "why": list(why),
        "guest": guest,
        "result": result,
        "counts": counts,
    }
    name = f"{one.topology.name}-{one.case.name}-{one.allocator.name}-{seed}"
    path = verdict_folder() / f"{re.sub(r'[^A-Za-z0-9_.+-]', '_', name)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made) + "\n", encoding="utf-8")
    return made
