"""The command `./near manycore goals`: runs, keeps and judges.

Invariant: as in `commands`: the exit status is 1 if a run failed, 2 if the request is wrong. A goal
that is missed does not change it.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from nearmanycore import goals, kept, places, plan
from nearmanycore.commands import WRONG
from nearmanycore.goals import Choice, Goals
from nearmanycore.simulate import Request, RunError


def judge_goals(
    only: Annotated[str, typer.Option(metavar="WORKLOAD,...", help="These workloads alone.")] = "",
    allocators: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="The first one is judged.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--processors", min=1, help="At most so many.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-6, help="Times the operations.")] = 1,
    kept_rows: Annotated[
        Path | None, typer.Option("--from", help="A results.csv; nothing is run.")
    ] = None,
    file: Annotated[Path, typer.Option("--goals", help="The goals.")] = places.GOALS,
    out: Annotated[Path, typer.Option(help="The folder of the results.")] = places.RESULTS
    / "goals",
) -> None:
    """Judges manycore/goals.toml: what is reached, and what is waited for where it is not."""
    err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    choice = Choice(tuple(filter(None, only.split(","))), allocators, most, scale)
    failed = False
    try:
        wanted = goals.chosen(goals.load(file), choice)
        if kept_rows is None:
            name = "results.csv" if choice == Choice() else "partial.csv"
            rows, failed = _run(wanted, scale, out / name, err)
        else:
            rows = goals.read(kept_rows)
    except WRONG as error:
        err.print(f"near manycore: {error}")
        raise typer.Exit(2) from None
    print(goals.table(wanted, rows), end="")
    raise typer.Exit(1 if failed else 0)


def _run(
    wanted: Goals, scale: float, file: Path, err: Console
) -> tuple[list[dict[str, str]], bool]:
    """The rows of all runs, and whether one failed. A result that is kept beside the file is not
    run again."""
    requests = goals.requests(wanted, scale)
    rows, failed = [], False

    def done(request: Request, result: dict[str, Any] | RunError) -> None:
        nonlocal failed
        if isinstance(result, RunError):
            failed = True
            err.print(f"near manycore: {result}")
            return
        rows.append(goals.row(result))
        said = f"{len(rows)} of {len(requests)}, {result['host_ns'] / 1e9:.1f} s"
        err.print(f"near manycore: {request.name}: {said}")

    plan.run(requests, done, lambda request: kept.run(request, file.parent))
    if rows:
        goals.write(rows, file)
    return rows, failed
