"""Reads a plan: which workloads with which options run under which allocators, and what is drawn.

A plan is a TOML file; docs of every key are the fields below, but `each`, by which a table stands
for several (families.py). Its cells are what is run: one for each workload, number of threads and
value of the swept option. Invariant: a Plan that was made is
right: every key is known, every program is there and knows the options it is given; of a program
that this machine cannot have, the cells are missing. What is wrong is a PlanError of one line that
names the file and the key.
"""

import fnmatch
import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearlab import peers, places, programs
from nearlab.plan import chosen, families, workloads
from nearlab.programs.base import Program
from nearlab.programs.given import Given

PROGRAM = programs.PREFIX
Preset = Literal["two-cores", "paper"]
Origin = Literal["published", "program", "own"]  # groups that are never averaged together
HugePages = Literal["always", "madvise", "never"]
Value = bool | int | float | str
_Threads = Annotated[int, Field(ge=1)]


class PlanError(ValueError):
    """A plan that cannot be run; the message is one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Workload(_Table):
    """`[[workload]]`: a program and the cells made of it."""

    program: str  # a workload, or "program:NAME", a real program
    name: str = ""  # the program's if it is not given
    options: dict[str, Value] = {}  # size = 64 becomes --size 64; true becomes a bare flag
    threads: list[_Threads] = []  # each value makes a cell, with --threads N
    threads_each: _Threads = 1  # threads for each of these: 2 if each producer has a consumer
    sweep: Annotated[dict[str, list[int | float | str]], Field(max_length=1)] = {}
    huge_pages: list[HugePages] = []  # each makes cells; default: the plan's
    group: str = "other"
    origin: Origin | None = None  # default: program for a real one, the plan's, or as in `quick`
    tuned: bool = False  # the allocator under development was tuned by this row
    limit_mib: Annotated[int | None, Field(ge=0)] = None  # 0: not under the limit allocator
    timeout_s: Annotated[float | None, Field(gt=0)] = None
    rounds: Annotated[int | None, Field(ge=1)] = None
    allocators: list[str] = []  # the only allocators it runs under

    @property
    def label(self) -> str:
        return self.name or self.program

    @property
    def real_program(self) -> str | None:
        """The name of the real program; None for a workload."""
        return self.program.removeprefix(PROGRAM) if self.program.startswith(PROGRAM) else None


class Figure(_Table):
    """`[[figure]]`: what the report draws."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    kind: Literal["lines", "bars", "scatter", "heatmap", "curve"]
    workloads: Annotated[list[str], Field(min_length=1)]  # names; `*` stands for anything
    x: str | None = None
    y: str = "seconds"
    by: Literal["allocator", "workload"] = "allocator"  # what a panel compares
    allocators: list[str] = []  # the allocators with a panel, if the figure compares workloads
    relative_to: str | None = None  # an allocator, or the workload where workloads are compared
    series: str | None = None
    title: str = ""
    caption: str = ""


class Timeline(_Table):
    """`[[timeline]]`: one more run of a cell, which records what its threads do."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    cell: str  # the cell's name; its workload has the option --timeline
    allocators: list[str] = []  # empty: all allocators of the plan
    # Start and end, within the measured region; None: all of it.
    window_ms: Annotated[list[int | float], Field(min_length=2, max_length=2)] | None = None
    kind: str | None = None  # of the intervals drawn as boxes; default: batches of frees
    title: str = ""
    caption: str = ""


class Target(_Table):
    """`[[target]]`: what an allocator has to reach in some cells; results/targets.py judges it."""

    name: Annotated[str, Field(min_length=1)]
    kind: Literal["mean", "paired", "each", "difference", "value"]
    workloads: Annotated[list[str], Field(min_length=1)]  # names; `*` stands for anything
    metric: str = "seconds"
    at_most: float
    allocator: str = "nearmalloc"
    relative_to: str | None = None  # an allocator, or "smallest"; default: the allocator itself
    relative_to_metric: str | None = None  # default: the same metric
    slack: float | None = None  # for `each`: an excess up to this does not count


class _Keys(_Table):
    """The whole file."""

    name: Annotated[str, Field(pattern=r"^[\w][\w.+-]*$")]  # the name of the results' folder
    title: str = ""
    description: str = ""
    rounds: Annotated[int, Field(ge=1)] = 5
    warm_up: Annotated[int, Field(ge=0)] = 1
    allocators: Annotated[list[str], Field(min_length=1)]  # names, NAME=LIBRARY, or "all" alone
    timeout_s: Annotated[float, Field(gt=0)] = 120
    count: bool = False
    preset: Preset = "two-cores"
    origin: Origin | None = None  # of the workloads that name none
    huge_pages: list[HugePages] = []  # of all rows that name none (runs/huge_pages.py)
    workload: list[Workload] = []
    program: list[Given] = []
    figure: list[Figure] = []
    timeline: list[Timeline] = []
    target: list[Target] = []


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that is right, with the text it was read from."""

    keys: _Keys
    text: str

    @property
    def name(self) -> str:
        return self.keys.name

    @property
    def rows(self) -> list[Workload]:
        """The rows of the plan: its workloads, then the programs that it describes."""
        return _rows(self.keys)

    @property
    def given(self) -> dict[str, Program]:
        """The programs that the plan describes, by name."""
        return {one.name: one.program() for one in self.keys.program}

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def everywhere(self) -> tuple[str, ...]:
        """The allocators for workloads that name none of their own."""
        if self.keys.allocators == ["all"]:
            return peers.known()
        there = peers.known() if places.INSTALLED else peers.NAMES
        return tuple(one for one in self.keys.allocators if one in there or one not in peers.NAMES)

    @property
    def allocators(self) -> tuple[str, ...]:
        """All allocators that have a cell."""
        own = (name for workload in self.keys.workload for name in workload.allocators)
        return tuple(dict.fromkeys((*self.everywhere, *own)))


def _rows(keys: _Keys) -> list[Workload]:
    described = [
        Workload(
            program=PROGRAM + one.name,
            name=one.name,
            group=one.group,
            rounds=one.rounds,
            tuned=one.tuned,
            limit_mib=0,
        )
        for one in keys.program
    ]
    return [*keys.workload, *described]


def find(name: str) -> Path:
    """The file of a plan, given its name in lab/plans or its path."""
    path = Path(name) if name.endswith(".toml") else places.plans_dir() / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(path.stem for path in places.plan_files())
        raise PlanError(f"there is no plan {name}; there are: {known}")
    return path


def load(path: Path) -> Plan:
    try:
        return parse(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None


def ad_hoc(names: Sequence[str], rounds: int = 5) -> Plan:
    """The plan of workloads that are run as they are, under all allocators."""
    title = "-".join(name.removeprefix(PROGRAM) for name in names)[:60]
    tables = [f"[[workload]]\nprogram = {json.dumps(name)}\n" for name in names]
    head = f'name = {json.dumps(title)}\nrounds = {rounds}\nallocators = ["all"]\n'
    return parse("\n".join([head, *tables]), "command line")


def parse(text: str, where: str) -> Plan:
    """Parses a plan's text. Errors call the text `where`."""
    try:
        found = families.read(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: not TOML: {error}") from None
    except families.FamilyError as error:
        raise PlanError(f"{where}: {error}") from None
    try:
        keys = _Keys.model_validate(found.tables)
    except ValidationError as error:
        raise PlanError(f"{where}: {_first_error(error, found.origins)}") from None
    for key, problem in _problems(keys, found.origins):
        raise PlanError(f"{where}: {key}: {problem}")
    return Plan(keys, text)


def _first_error(error: ValidationError, origins: dict[str, list[int]]) -> str:
    first = error.errors()[0]
    where = list(first["loc"])
    if len(where) > 1 and where[0] in origins and isinstance(where[1], int):
        where[1] = origins[where[0]][where[1]]
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in where]
    # In a union, the name of the type that did not match is not a key of the file.
    key = "".join(part for part in parts if part not in (".bool", ".int", ".float", ".str"))
    message = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
    return f"{key.removeprefix('.')}: {message[0].lower()}{message[1:]}"


def _problems(keys: _Keys, origins: dict[str, list[int]]) -> Iterator[tuple[str, str]]:
    """Yields errors that types do not exclude, as (key, problem)."""
    yield from _allocator_problems(keys)
    if not _rows(keys):
        yield "workload", "is needed, or a program"
    for index, one in enumerate(keys.program):
        if wrong_key := one.problem():
            yield f"program[{index}].{wrong_key[0]}", wrong_key[1]
        if one.name in programs.listed():
            yield f"program[{index}].name", f"{one.name!r} is a program of the lab"
    own = {one.name for one in keys.program}
    for index, workload in zip(origins.get("workload", ()), keys.workload, strict=True):
        for key, problem in _workload_problems(workload, own):
            yield f"workload[{index}].{key}", problem
        if wrong := chosen.problem(workload.allocators):
            yield f"workload[{index}].allocators", wrong
    for index, figure in zip(origins.get("figure", ()), keys.figure, strict=True):
        for key, problem in _figure_problems(figure, keys):
            yield f"figure[{index}].{key}", problem
    for index, timeline in enumerate(keys.timeline):
        for name in set(timeline.allocators) - _allocator_names(keys):
            yield f"timeline[{index}].allocators", f"unknown {name!r}"
    for index, target in enumerate(keys.target):
        for key, problem in _target_problems(target, keys):
            yield f"target[{index}].{key}", problem
    figures = [figure.name for figure in keys.figure]
    yield from _duplicates("target", [target.name for target in keys.target])
    yield from _duplicates("workload", [workload.label for workload in _rows(keys)])
    yield from _duplicates("figure", [*figures, *(timeline.name for timeline in keys.timeline)])


def _duplicates(key: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{key}.name", f"{name!r} is the name of {count}"


def _allocator_problems(keys: _Keys) -> Iterator[tuple[str, str]]:
    problem = None if keys.allocators == ["all"] else chosen.problem(keys.allocators)
    if problem:
        yield "allocators", problem


def _workload_problems(workload: Workload, own: set[str]) -> Iterator[tuple[str, str]]:
    asked = {**dict.fromkeys(workload.options, "options"), **dict.fromkeys(workload.sweep, "sweep")}
    if workload.threads:
        asked["threads"] = "threads"
    if workload.real_program is not None:
        known = programs.listed()
        if workload.real_program not in (*known, *own):
            yield "program", f"unknown {workload.program!r}; there are: {', '.join(known)}"
        for option, key in asked.items():
            yield f"{key}.{option}", "a real program takes no options"
        return
    try:
        known_options = workloads.options(workload.program)
    except workloads.WorkloadError as error:
        if workloads.missing(workload.program) is None:  # otherwise its cells are missing
            yield "program", str(error)
        return
    for option, key in asked.items():
        if option not in known_options:
            there_are = ", ".join(sorted(known_options))
            yield f"{key}.{option}", f"{workload.program} has no such option; it has: {there_are}"
    yield from _repeated_options(workload)


def _repeated_options(workload: Workload) -> Iterator[tuple[str, str]]:
    for option in workload.sweep:
        if option in workload.options or option == "threads":
            yield f"sweep.{option}", "is given twice"
    if workload.threads and "threads" in workload.options:
        yield "options.threads", "is given twice"
    if "preset" in workload.options:
        yield "options.preset", "is the plan's: preset"


def _target_problems(target: Target, keys: _Keys) -> Iterator[tuple[str, str]]:
    labels = [workload.label for workload in _rows(keys)]
    for pattern in target.workloads:
        if not fnmatch.filter(labels, pattern):
            yield "workloads", f"no workload is called {pattern!r}"
    if target.allocator not in _allocator_names(keys):
        yield "allocator", f"unknown {target.allocator!r}"
    if target.relative_to not in (None, "smallest", *_allocator_names(keys)):
        yield "relative_to", f"unknown {target.relative_to!r}"
    if target.slack is not None and target.kind != "each":
        yield "slack", "is what `each` has, and nothing else"


def _figure_problems(figure: Figure, keys: _Keys) -> Iterator[tuple[str, str]]:
    shown = []
    for pattern in figure.workloads:
        found = [one for one in _rows(keys) if fnmatch.fnmatchcase(one.label, pattern)]
        if not found:
            yield "workloads", f"no workload is called {pattern!r}"
        shown += found
    axes = {"threads", *(option for workload in shown for option in workload.sweep)}
    if keys.huge_pages or any(workload.huge_pages for workload in shown):
        axes.add("huge_pages")
    if figure.kind == "lines" and figure.x not in axes:
        yield "x", f"is one of {', '.join(sorted(axes))} in a figure of lines"
    if figure.kind != "lines" and figure.x is not None:
        yield "x", f"a figure of {figure.kind} has none"
    if (figure.kind == "curve") != (figure.series is not None):
        yield "series", "is what a curve has, and nothing else"
    if figure.by == "workload":
        yield from _comparison_problems(figure, keys)
        return
    if figure.allocators:
        yield "allocators", "has every allocator where they are compared"
    if figure.relative_to is not None and figure.relative_to not in _allocator_names(keys):
        yield "relative_to", f"unknown {figure.relative_to!r}"


def _comparison_problems(figure: Figure, keys: _Keys) -> Iterator[tuple[str, str]]:
    if figure.kind not in ("lines", "bars", "heatmap"):
        yield "by", f"a figure of {figure.kind} compares no workloads"
    if figure.kind == "heatmap" and figure.relative_to is None:
        yield "relative_to", "is needed to compare workloads by colours"
    if figure.y == "speedup":
        yield "y", "a speed-up is an allocator's"
    for name in set(figure.allocators) - _allocator_names(keys):
        yield "allocators", f"unknown {name!r}"
    if figure.relative_to not in (None, *(workload.label for workload in _rows(keys))):
        yield "relative_to", f"no workload is called {figure.relative_to!r}"


def _allocator_names(keys: _Keys) -> set[str]:
    own = (choice for workload in keys.workload for choice in workload.allocators)
    return {*peers.NAMES, *map(chosen.name_of, own), *map(chosen.name_of, keys.allocators)}
