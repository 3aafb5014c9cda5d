"""The command `timeline`: a recorded timeline as a figure (SVG, PNG) or a trace for Perfetto.

Invariant: a broken file or a wrong request is an error of one line and exit status 2.
"""

from pathlib import Path
from typing import Annotated

import typer

from nearlab.timeline.file import Timeline, TimelineError, read

SUFFIXES = (".svg", ".png", ".json")


def draw(
    path_in: Path,
    path_out: Path,
    title: str = "",
    *,
    from_ms: float | None = None,
    to_ms: float | None = None,
    kind: str | None = None,
    scale: str = "auto",
) -> Timeline:
    """Makes a figure or a trace, by the suffix of `path_out`. Returns the timeline. Raises
    TimelineError."""
    if path_out.suffix not in SUFFIXES:
        raise TimelineError(f"{path_out}: the name must end with {', '.join(SUFFIXES)}")
    from nearlab.timeline import (  # the figure's library takes a second to load
        figure as timeline_figure,
    )
    from nearlab.timeline import perfetto as timeline_perfetto
    from nearlab.timeline.analysis import window

    found = read(path_in)
    part = window(found, from_ms, to_ms)
    try:
        if path_out.suffix == ".json":
            timeline_perfetto.write(found, path_out, part)
        else:
            timeline_figure.draw(found, path_out, part=part, title=title, kind=kind, scale=scale)
    except OSError as error:
        raise TimelineError(f"{path_out}: {error.strerror}") from None
    return found


def refuse(error: TimelineError) -> typer.Exit:
    typer.echo(f"nearlab: {error}", err=True)
    return typer.Exit(2)


def timeline(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What a recorder wrote.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.svg|.png|.json", help="Default: FILE.svg."),
    ] = None,
    title: Annotated[str, typer.Option(help="Above the figure; default: the file's name.")] = "",
    from_ms: Annotated[
        float | None, typer.Option("--from", metavar="MS", help="Only from here.")
    ] = None,
    to_ms: Annotated[float | None, typer.Option("--to", metavar="MS", help="Up to here.")] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which intervals are boxes (free_batch).")
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="auto|log|linear", help="Of the unreclaimed objects.")
    ] = "auto",
) -> None:
    """Draws what threads did and when; .json is a trace that ui.perfetto.dev opens."""
    target = output or file.with_name(file.name + ".svg")
    try:
        if scale not in ("auto", "log", "linear"):
            raise TimelineError(f"unknown scale {scale}")
        found = draw(file, target, title, from_ms=from_ms, to_ms=to_ms, kind=kind, scale=scale)
    except TimelineError as error:
        raise refuse(error) from None
    lost = f", {found.dropped:,} dropped" if found.dropped else ""
    typer.echo(f"{found.events:,} events of {len(found.rows)} threads{lost}", err=True)
    typer.echo(target)
