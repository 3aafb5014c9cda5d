"""`./near lab report`: the page of a results file, or one of its figures."""

from pathlib import Path
from typing import Annotated

import typer

from .. import places
from ..record import RecordError, newest

_DEFAULT_PLAN = "quick"


def report(
    result: Annotated[
        str, typer.Argument(metavar="[RESULT|PLAN]", help="A results file, or a plan's name.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder, or the figure's file.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="NAME", help="The allocator to judge (nearmalloc).")
    ] = None,
    figure: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write this figure's PNG alone.")
    ] = None,
) -> None:
    """Makes a page, and PNG and CSV of every figure, of the newest results or of those named."""
    from .build import build, draw_figure  # the charts' library takes a second to load

    try:
        path = _find(result)
        if figure:
            target = output or Path(f"{figure}.png")
            draw_figure(path, figure, target, subject)
        else:
            target = build(path, output or _folder(path), subject)
    except (RecordError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    print(target)


def _find(result: str) -> Path:
    """The named file; or the newest of the named plan, of the plan quick, of any plan."""
    folder = places.plan_results()
    if result:
        path = Path(result)
        return path if path.is_file() else newest(folder, result)
    try:
        return newest(folder, _DEFAULT_PLAN)
    except RecordError:
        return newest(folder)


def _folder(path: Path) -> Path:
    return places.results_dir() / "report" / f"{path.parent.name}-{path.stem}"
