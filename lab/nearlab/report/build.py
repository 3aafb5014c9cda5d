"""Writes a report: the page, and PNG and CSV of every figure; or the PNG of one figure.

Invariant: nothing is written before the results file was read to its end.
"""

from pathlib import Path

from .. import record as record_module
from ..record import RecordError
from . import counts, figures, page, style, theme
from .analysis import Analysis
from .charts import Frame
from .rows import write_csv


def open_record(path: Path, subject: str | None = None) -> tuple[Analysis, Frame]:
    """What every figure is made from."""
    analysis = Analysis(record_module.read(path), subject)
    cpus = int((analysis.record.plan.get("machine") or {}).get("cpus", 0))
    looks = style.looks(analysis.shown, analysis.subject)
    return analysis, Frame(looks, analysis.subject, cpus)


def contents_of(analysis: Analysis, frame: Frame) -> page.Contents:
    """Every figure of a report."""
    return page.Contents(
        scatter=figures.time_against_memory(analysis, frame),
        heat_maps=figures.heat_maps(analysis, frame),
        planned=figures.planned(analysis, frame),
        ratios=figures.ratios(analysis, frame),
        latencies=counts.latencies(analysis, frame),
        counts=tuple(
            figure
            for draw in (counts.counts, counts.instructions)
            if (figure := draw(analysis, frame))
        ),
    )


def build(path: Path, folder: Path, subject: str | None = None) -> Path:
    """Writes the report of a results file into `folder`; gives the page. Raises RecordError."""
    analysis, frame = open_record(path, subject)
    contents = contents_of(analysis, frame)
    text = page.render(analysis, frame, contents)
    folder.mkdir(parents=True, exist_ok=True)
    for figure in contents.all():
        theme.write_png(figure, frame, folder / f"{figure.name}.png")
        with (folder / f"{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
            write_csv(figure.rows, file)
    target = folder / "index.html"
    target.write_text(text, encoding="utf-8")
    return target


def draw_figure(path: Path, name: str, target: Path, subject: str | None = None) -> None:
    """Writes the PNG of one figure. Raises RecordError when there is none of this name."""
    analysis, frame = open_record(path, subject)
    found = contents_of(analysis, frame).all()
    chosen = next((figure for figure in found if figure.name == name), None)
    if chosen is None:
        names = ", ".join(figure.name for figure in found)
        raise RecordError(f"no figure '{name}'; there are: {names}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not theme.write_png(chosen, frame, target):
        raise RecordError(f"figure '{name}' has nothing to draw")
