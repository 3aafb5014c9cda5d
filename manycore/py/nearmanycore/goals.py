"""`./near manycore goals`: runs what the goals of manycore/goals.toml need, keeps the numbers as a
table of values, and prints which goals are reached.

Invariant: the printed table follows from the rows of results.csv alone (`read`, `table`).
"""

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmanycore import judge, machines, places, plan, subjects, workloads
from nearmanycore.judge import Cores, Goal, Numbers, Point, Row
from nearmanycore.machines import Named
from nearmanycore.plan import PlanError
from nearmanycore.simulate import Request

MORE_FIELDS = (
    "transfers_allocator", "far_accesses", "kept_kib", "idle_kib", "line_share", "line",
    "most_share", "most",
)  # fmt: skip
FIELDS = (*plan.FIELDS, *MORE_FIELDS)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Change(_Table):
    """`[workload.NAME]`: what is other than in workloads.toml."""

    scale: Annotated[float, Field(gt=0)] = 1
    spare: Annotated[int, Field(ge=0)] = 0
    arguments: list[str] = []

    def threads(self, processors: int, least: int) -> int:
        """As many as processors without the spare ones, where there are more than twice as many."""
        spare = self.spare if processors > 2 * self.spare else 0
        return max(processors - spare, least)


class Goals(_Table):
    """The whole file."""

    title: str
    allocators: Annotated[list[str], Field(min_length=1)]  # the first is judged
    timeout_s: Annotated[float, Field(gt=0)] = 1800
    workload: dict[str, Change] = {}
    goal: Annotated[list[Goal], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line changes."""

    only: tuple[str, ...] = ()  # workloads
    allocators: str | None = None
    most: int | None = None  # processors; larger points have so many instead
    scale: float = 1


def load(path: Path = places.GOALS) -> Goals:
    try:
        return Goals.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise PlanError(f"{path.name}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanError(f"{path.name}: {where}: {first['msg']}") from None


def chosen(goals: Goals, choice: Choice) -> Goals:
    """The goals with the choice applied; those without a chosen workload are left out."""
    unknown = set(choice.only) - {name for goal in goals.goal for name in goal.workloads}
    if unknown:
        raise PlanError(f"no goal has the workload {' '.join(sorted(unknown))}")
    kept = []
    for goal in goals.goal:
        names = [name for name in goal.workloads if not choice.only or name in choice.only]
        if names:
            at = list(dict.fromkeys(_at_most(text, choice.most) for text in goal.at))
            kept.append(goal.model_copy(update={"workloads": names, "at": at}))
    names = choice.allocators.split(",") if choice.allocators else goals.allocators
    return goals.model_copy(update={"goal": kept, "allocators": names})


def _at_most(text: str, most: int | None) -> str:
    point = Point.of("", text)
    return f"{point.machine}/{min(point.processors, most or point.processors)}"


# --- what is run ---


def machine_of(name: str) -> Named:
    """The machine, or the one core of it whose name is `judge.core_name`."""
    whole = name.removesuffix(judge.core_name(""))
    named = machines.load(whole)
    if whole == name:
        return named
    core = named.machine.model_copy(update={"sockets": 1, "cores": 1, "distances": [[10]]})
    return Named(name, core)


def cores_of(machine: str) -> Cores:
    found = machines.load(machine).machine
    return Cores(found.sockets * found.cores, found.threads)


def points(goals: Goals) -> list[tuple[str, Point]]:
    """The runs that the goals need, each once: the judged allocator's first."""
    wanted: dict[tuple[str, Point], None] = {}
    for name in goals.allocators:
        for goal in goals.goal:
            if name != goals.allocators[0] and name not in judge.peers_of(goal, goals.allocators):
                continue
            for point in goal.points():
                cores = cores_of(point.machine)
                more = judge.bases(point, cores) if goal.kind == "linear" else []
                wanted |= dict.fromkeys((name, each) for each in [*more, point])
    return list(wanted)


def requests(goals: Goals, scale: float = 1) -> list[Request]:
    by_name = {name: subjects.find(name)[0] for name in goals.allocators}
    made = []
    for name, point in points(goals):
        keys = workloads.load(point.workload)
        change = goals.workload.get(point.workload, Change())
        made.append(
            Request(
                point.workload,
                keys,
                by_name[name],
                machine_of(point.machine),
                point.processors,
                change.threads(point.processors, keys.least),
                scale=scale * change.scale,
                more=tuple(change.arguments),
                timeout_s=goals.timeout_s,
            )
        )
    return made


# --- rows ---


def row(record: dict[str, Any]) -> dict[str, str]:
    """A plan's row with what goals need more; `kept` made the record."""
    counts, measured = record["counts"], record["workload"]
    operations = max(1, measured["operations"])
    processors = record["request"]["processors"]
    region = record.get("measured", {"present_begin": 0, "present_end": 0})
    retained = measured.get("retained_kib_per_thread")
    idle = math.nan
    if retained is not None:
        idle = (measured["rss_after_kib"] - measured["rss_before_kib"]) / processors
    waited = record["waited_for"]
    values = (
        f"{counts['transfers_allocator'] / operations:.4f}",
        f"{(counts['transfer_far'] + counts['memory_remote']) / operations:.3f}",
        f"{(region['present_end'] - region['present_begin']) / 1024 / processors:.1f}",
        f"{idle:.1f}", f"{waited['line_share']:.4f}", waited["line"],
        f"{waited['most_share']:.4f}", waited["most"],
    )  # fmt: skip
    return plan.row(record) | dict(zip(MORE_FIELDS, values, strict=True))


def write(rows: list[dict[str, str]], path: Path) -> None:
    plan.write(rows, path, FIELDS)


def read(path: Path) -> list[dict[str, str]]:
    return plan.read(path, FIELDS, "goals")


def numbers(each: dict[str, str]) -> tuple[tuple[str, Point], Numbers]:
    point = Point(each["series"], each["machine"], int(each["processors"]))
    most = f"{each['most']}: {float(each['most_share']):.0%}" if each["most"] else ""
    line = f"{each['line']}: {float(each['line_share']):.0%}" if each["line"] else ""
    return (each["allocator"], point), Numbers(
        mops=float(each["mops"]),
        transfers=float(each["transfers_allocator"]),
        far=float(each["far_accesses"]),
        line_share=float(each["line_share"]),
        line=line,
        kept_kib=float(each["kept_kib"]),
        idle_kib=float(each["idle_kib"]),
        cause=most,
    )


# --- the table ---


def table(goals: Goals, rows: Sequence[dict[str, str]]) -> str:
    runs = dict(map(numbers, rows))
    judged = judge.judge(goals.goal, runs, goals.allocators, cores_of)
    return markdown(judged, goals.allocators[0])


def markdown(rows: Iterable[Row], subject: str) -> str:
    rows = list(rows)
    text = [
        f"| goal, simulated | workload | machine, processors | {subject} | best peer | ratio | "
        "target | reached | waited for most |",
        "|---|---|---|--:|--:|--:|---|---|---|",
    ]
    text += [f"| {' | '.join(_cells(each))} |" for each in rows]
    missed = {each.goal.name for each in rows if not each.reached}
    all_goals = {each.goal.name for each in rows}
    reached = f"{len(all_goals - missed)} of {len(all_goals)} goals"
    in_rows = f"{sum(each.reached for each in rows)} of {len(rows)} rows"
    return "\n".join(text) + f"\n\nReached: {reached}, {in_rows}.\n"


def _cells(row: Row) -> list[str]:
    goal, far = row.goal, row.far or (None, None)
    best = f"{row.best[0]} {_shown(goal, row.best[1], far[1])}" if row.best else ""
    ratio = "" if row.share is None or goal.kind not in ("peers", "times") else f"{row.share:.2f}"
    bound = f"at least {goal.least:g}" if goal.least is not None else f"at most {goal.most:g}"
    return [
        goal.name,
        row.point.workload,
        f"{row.point.machine}, {row.point.processors}",
        _shown(goal, row.value, far[0]),
        best,
        ratio,
        bound,
        "yes" if row.reached else "no",
        row.cause.replace("|", "\\|"),
    ]


def _shown(goal: Goal, value: float | None, far: float | None) -> str:
    if value is None or math.isnan(value):
        return "none"
    if goal.kind in ("linear", "waiting"):
        return f"{value:.2f}" if goal.kind == "linear" else f"{value:.1%}"
    if goal.kind == "transfers":
        return f"{value:.3f}"
    if goal.kind in ("kept", "idle"):
        return f"{value:.0f} KiB"
    shown = f"{plan.shown(value)} Mop/s"
    return shown if far is None else f"{shown}, {far:.1f} far"
