"""Plans of simulated runs, from manycore/plans/NAME.toml: the figures of the documents on their own
machines, and the comparison of allocators.

Invariant: a plan's results are rows of numbers (`rows`), from which every table and figure is made
(`tables`, `plot`). Equal plans give equal rows, except `host_s`.
"""

import csv
import os
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nearmanycore import machines, places, simulate, subjects, workloads
from nearmanycore.report import Measures
from nearmanycore.simulate import Request, RunError
from nearmanycore.workloads import Workload


class PlanError(ValueError):
    """A plan that cannot run, in one line."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Series(_Table):
    """One `[[series]]`: a workload of workloads.toml, or a program with arguments of its own."""

    name: str
    workload: str | None = None
    program: str | None = None
    arguments: list[str] = []
    operations: Annotated[int, Field(ge=1)] = 1
    least: Annotated[int, Field(ge=1)] = 1
    threads: Annotated[int, Field(ge=1)] | None = None  # instead of one for each processor
    scale: Annotated[float, Field(gt=0)] = 1
    processors: list[Annotated[int, Field(ge=1)]] | None = None  # instead of the plan's
    allocators: list[str] | None = None

    def keys(self) -> Workload:
        if self.workload is not None:
            return workloads.load(self.workload)
        if self.program is None:
            raise PlanError(f"{self.name}: neither workload nor program")
        return Workload(
            description=self.name,
            program=self.program,
            operations=self.operations,
            arguments=self.arguments,
            least=self.least,
        )


class Plan(_Table):
    """The whole file."""

    title: str
    description: str
    machine: str
    processors: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    allocators: Annotated[list[str], Field(min_length=1)]
    timeout_s: Annotated[float, Field(gt=0)] = 1800
    series: Annotated[list[Series], Field(min_length=1)]


def names() -> list[str]:
    return sorted(path.stem for path in places.PLANS.glob("*.toml"))


def load(name: str) -> Plan:
    """The plan of this name, or of this file."""
    path = Path(name) if name.endswith(".toml") else places.PLANS / f"{name}.toml"
    try:
        return Plan.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError:
        raise PlanError(f"there is no plan {name}; there are: {' '.join(names())}") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path.name}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanError(f"{path.name}: {where}: {first['msg']}") from None


def requests(plan: Plan, most: int | None = None, scale: float = 1) -> Iterator[Request]:
    """The runs, on at most `most` processors, with `scale` times the operations."""
    named = machines.load(plan.machine)
    for series in plan.series:
        keys = series.keys()
        for subject in subjects.find(",".join(series.allocators or plan.allocators)):
            for processors in series.processors or plan.processors:
                if processors > min(most or processors, named.machine.processors):
                    continue
                threads = max(series.threads or processors, keys.least)
                yield Request(
                    series.name,
                    keys,
                    subject,
                    named,
                    processors,
                    threads,
                    scale=series.scale * scale,
                    timeout_s=plan.timeout_s,
                )


Done = Callable[[Request, dict[str, Any] | RunError], None]


def run(
    wanted: list[Request],
    done: Done,
    run_one: Callable[[Request], dict[str, Any]] = simulate.run,
) -> None:
    """Runs them, as many at once as the host has processors; `done` is called for each in order of
    the plan."""

    def one(request: Request) -> dict[str, Any] | RunError:
        try:
            return run_one(request)
        except RunError as error:
            return error

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for request, result in zip(wanted, pool.map(one, wanted), strict=True):
            done(request, result)


# What the programs of trees and tables add; empty for the others. The share of the threads' time
# that they spent freeing is empty unless the series asks for it.
RECLAMATION = ("epochs", "peak_unreclaimed", "longest_free_run", "freeing_share")
FIELDS = (
    "series", "allocator", "machine", "processors", "threads", "seed", "operations", "seconds",
    "mops", "misses", "near", "far", "wait_lines_ns", "wait_locks_ns", "wait_address_space_ns",
    "wait_processor_ns", "peak_mib", *RECLAMATION, "events", "digest", "host_s",
)  # fmt: skip


def row(record: dict[str, Any]) -> dict[str, str]:
    """What is kept of a run: the numbers that tables and figures show, for each operation."""
    measures = Measures.of(record)
    asked, measured = record["request"], record["workload"]
    waits = measures.waited_ns
    reclamation = (f"{measured[key]:.9g}" if key in measured else "" for key in RECLAMATION)
    values = (
        asked["workload"], asked["allocator"], asked["machine"], asked["processors"],
        asked["threads"], asked["seed"], measured["operations"], f"{measured['seconds']:.9g}",
        f"{measures.mops:.4g}", f"{measures.misses:.3f}", f"{measures.near:.3f}",
        f"{measures.far:.3f}", *(f"{waits[kind]:.1f}" for kind in waits),
        f"{measures.rss_mib:.1f}", *reclamation, record["events"], record["digest"],
        f"{record['host_ns'] / 1e9:.1f}",
    )  # fmt: skip
    return dict(zip(FIELDS, map(str, values), strict=True))


def write(rows: list[dict[str, str]], path: Path, fields: tuple[str, ...] = FIELDS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(
    path: Path, fields: tuple[str, ...] = FIELDS, what: str = "a plan"
) -> list[dict[str, str]]:
    """The rows of a file that `write` wrote with these fields."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError:
        raise PlanError(f"there is no {path}") from None
    if not rows or tuple(rows[0]) != fields:
        raise PlanError(f"{path} holds no results of {what}")
    return rows


def markdown(rows: list[dict[str, str]]) -> str:
    """Millions of operations a second, and the most objects that waited to be freed at a time."""
    text = _table(rows, "simulated, Mop/s", "mops")
    freeing = [each for each in rows if each["peak_unreclaimed"]]
    if freeing:
        text += "\n" + _table(freeing, "most retired objects", "peak_unreclaimed")
    return text


def _table(rows: list[dict[str, str]], title: str, field: str) -> str:
    """A line for each series and allocator, a column for each number of processors."""
    numbers = sorted({int(each["processors"]) for each in rows})
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for each in rows:
        cells = lines.setdefault((each["series"], each["allocator"]), {})
        cells[int(each["processors"])] = shown(float(each[field]))
    text = [f"| {title} | allocator | {' | '.join(map(str, numbers))} |"]
    text.append(f"|---|---|{'--:|' * len(numbers)}")
    for (series, allocator), cells in lines.items():
        values = " | ".join(cells.get(number, "") for number in numbers)
        text.append(f"| {series} | {allocator} | {values} |")
    return "\n".join(text) + "\n"


def shown(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
