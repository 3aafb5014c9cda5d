"""The commands of `./near manycore`: list what there is; run a workload or a plan; show results
again; measure this machine and compare it with the simulation.

Invariant: the exit status is 1 if a run failed, 2 if the request is wrong. Each run is kept as a
file as soon as it ends.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from nearmanycore import calibrate, machines, places, plan, report, subjects, validate, workloads
from nearmanycore.calibrate import CalibrationError
from nearmanycore.machines import MachineError
from nearmanycore.plan import PlanError
from nearmanycore.simulate import Request, RunError
from nearmanycore.subjects import SubjectError
from nearmanycore.workloads import WorkloadError

_WIDTH = 160  # where stdout is no terminal
WRONG = (MachineError, SubjectError, WorkloadError, PlanError, CalibrationError)


class ChoiceError(ValueError):
    """A wrong choice of the command line, in one line."""


def list_all() -> None:
    """Lists machines, workloads and allocators."""
    out = _console()
    table = Table("machine", "processors", "nodes", "what it is")
    for name in machines.names():
        machine = machines.load(name).machine
        table.add_row(name, str(machine.processors), str(machine.nodes), machine.description)
    out.print(table)
    table = Table("workload", "what it does")
    for name, keys in workloads.all_of_them().items():
        table.add_row(name, keys.description)
    out.print(table)
    table = Table("plan", "machine", "what it does")
    for name in plan.names():
        wanted = plan.load(name)
        table.add_row(name, wanted.machine, wanted.description)
    out.print(table)
    out.print(f"allocators: {' '.join(subjects.names())}; NAME=FILE.c, .cc, .o or .so is your own")


def run(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="See `list`.")],
    machine: Annotated[str, typer.Option(help="A machine's name, or a TOML file.")] = "epyc-256",
    processors: Annotated[
        str, typer.Option(metavar="N,...|all", help="Runs on so many processors, a thread on each.")
    ] = "1,2,4,8",
    allocators: Annotated[
        str, typer.Option(metavar="NAME|NAME=FILE,...", help="Which allocators.")
    ] = "near",
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal runs.")] = 1,
    scale: Annotated[float, typer.Option(min=1e-6, help="Times the operations.")] = 1,
    out: Annotated[Path | None, typer.Option(help="The folder of the results.")] = None,
    argument: Annotated[
        list[str] | None, typer.Option(help="One more argument of the workload.")
    ] = None,
) -> None:
    """Runs a workload of the lab on simulated processors; prints and plots throughput, and why."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    folder = out or places.RESULTS / workload
    try:
        requests = _requests(workload, machine, processors, allocators, seed, scale, argument or [])
    except (*WRONG, ChoiceError) as error:
        err.print(f"near manycore: {error}")
        raise typer.Exit(2) from None
    records = _run_all(requests, folder, err)
    if records:
        show(records, folder)
    raise typer.Exit(0 if len(records) == len(requests) else 1)


def _run_all(requests: list[Request], folder: Path, err: Console) -> list[dict[str, Any]]:
    """Runs all, keeps and returns the records of those that ended well."""
    records = []

    def done(request: Request, result: dict[str, Any] | RunError) -> None:
        if isinstance(result, RunError):
            err.print(f"near manycore: {result}")
            return
        keep(folder, request.name, result)
        records.append(result)
        millions, seconds = result["events"] / 1e6, result["host_ns"] / 1e9
        each = f"{seconds / millions * 1e3:.0f} ns each"
        err.print(f"near manycore: {request.name}: {millions:.1f} million events, {each}")

    plan.run(requests, done)
    return records


def run_plan(
    name: Annotated[str, typer.Argument(metavar="PLAN", help="See `list`; or a TOML file.")],
    most: Annotated[
        int | None, typer.Option("--processors", min=1, help="At most so many.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-6, help="Times the operations.")] = 1,
    out: Annotated[Path | None, typer.Option(help="The folder of the results.")] = None,
) -> None:
    """Runs the series of a plan; writes results.csv and a figure, prints a table."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    folder = out or places.RESULTS / Path(name).stem
    try:
        requests = list(plan.requests(plan.load(name), most, scale))
    except WRONG as error:
        err.print(f"near manycore: {error}")
        raise typer.Exit(2) from None
    records = _run_all(requests, folder, err)
    if records:
        plan.write([plan.row(record) for record in records], folder / "results.csv")
        show_plan(folder / "results.csv")
    raise typer.Exit(0 if len(records) == len(requests) else 1)


def show_plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan's results.csv.")],
) -> None:
    """Prints the table of a plan's results, and draws its figure beside them."""
    from nearmanycore import plot

    try:
        rows = plan.read(file)
    except PlanError as error:
        Console(stderr=True).print(f"near manycore: {error}")
        raise typer.Exit(2) from None
    print(plan.markdown(rows), end="")
    print(f"figure: {plot.panels(rows, file.with_suffix('.svg'))}")


def measure_here(
    out: Annotated[Path, typer.Option(help="The machine file to write.")] = places.HERE,
) -> None:
    """Measures what operations cost on this machine, and writes it as a machine file."""
    try:
        text = calibrate.machine_file(calibrate.measure())
    except CalibrationError as error:
        Console(stderr=True).print(f"near manycore: {error}")
        raise typer.Exit(1) from None
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    print(f"{text}\nwritten to {out}")


def compare(
    machine: Annotated[
        str, typer.Option(help="This machine, measured: a name or a file.")
    ] = "here",
    scale: Annotated[float, typer.Option(min=1e-6, help="Times the operations.")] = 10,
    out: Annotated[Path, typer.Option(help="The file of the results.")] = places.VALIDATION,
) -> None:
    """Compares the simulation of this machine with real runs on it."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        pairs = validate.compare(
            machines.load(machine), scale, lambda said: err.print(f"near manycore: {said}")
        )
    except (*WRONG, RunError) as error:
        err.print(f"near manycore: {error}")
        raise typer.Exit(1) from None
    validate.write(pairs, out)
    print(validate.markdown(pairs), end="")


def again(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run.")],
) -> None:
    """Prints and plots the results of a run again."""
    records = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    ]
    if not records:
        Console(stderr=True).print(f"near manycore: {folder} holds no result")
        raise typer.Exit(2)
    show(records, folder)


def _requests(
    name: str,
    machine: str,
    processors: str,
    allocators: str,
    seed: int,
    scale: float,
    more: list[str],
) -> list[Request]:
    keys = workloads.load(name)
    named = machines.load(machine)
    numbers = _numbers(processors, named.machine.processors)
    return [
        Request(
            name, keys, subject, named, number, max(number, keys.least), seed, scale, tuple(more)
        )
        for subject in subjects.find(allocators)
        for number in numbers
    ]


def _numbers(text: str, most: int) -> list[int]:
    """1,2,4 or all: the powers of two and the machine's own number."""
    if text == "all":
        return sorted({most} | {1 << i for i in range(10) if 1 << i < most})
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdigit() and 1 <= int(word) <= most for word in words):
        raise ChoiceError(f"--processors: '{text}' is no list of numbers from 1 to {most}")
    return [int(word) for word in words]


def keep(folder: Path, name: str, record: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")


def show(records: list[dict[str, Any]], folder: Path) -> None:
    from nearmanycore import plot

    out = _console()
    records.sort(key=lambda each: (each["request"]["allocator"], each["request"]["processors"]))
    report.show_table(out, records)
    largest = {each["request"]["allocator"]: each for each in records}
    for record in largest.values():
        report.show_why(out, record)
    drawn = plot.write(records, folder)
    out.print(f"\nfigure: {drawn[0]}", highlight=False, soft_wrap=True)


def _console() -> Console:
    out = Console()
    return out if out.is_terminal else Console(width=_WIDTH)
