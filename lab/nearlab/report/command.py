"""`./near lab report`: the page of a results file, or one of its figures."""

from pathlib import Path
from typing import Annotated

import typer

from nearlab import places
from nearlab.results.journal import JournalError, find
from nearlab.results.record import RecordError


def report(
    result: Annotated[
        str, typer.Argument(metavar="[RESULT|PLAN]", help="A file, PLAN, PLAN~1; none: the newest.")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder, or the figure's file.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="NAME", help="The allocator to judge (nearmalloc).")
    ] = None,
    figure: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write this figure alone (PNG, SVG).")
    ] = None,
) -> None:
    """Makes a page, and PNG and CSV of every figure, of the newest results or of those named."""
    from nearlab.report.build import (  # the charts' library takes a second to load
        build,
        draw_figure,
    )

    try:
        path = find(result)
        if figure:
            target = output or Path(f"{figure}.png")
            draw_figure(path, figure, target, subject)
        else:
            target = build(path, output or _folder(path), subject)
    except (JournalError, RecordError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    print(target)


def _folder(path: Path) -> Path:
    return places.results_dir() / "report" / f"{path.parent.name}-{path.stem}"
