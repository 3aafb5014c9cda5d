"""Writes a report: the page, and PNG and CSV of every figure; or the picture of one figure.

Invariant: nothing is written before the results file was read to its end.
"""

from pathlib import Path

from nearlab.report import counts, figures, page, planned, style, theme, timelines
from nearlab.report.analysis import Analysis
from nearlab.report.charts import Frame
from nearlab.report.figures import Figure
from nearlab.report.rows import write_csv
from nearlab.report.timelines import Timeline
from nearlab.results import record as record_module
from nearlab.results.record import RecordError


def open_record(path: Path, subject: str | None = None) -> tuple[Analysis, Frame]:
    """Reads the results and analyses them, for every figure."""
    analysis = Analysis(record_module.read(path), subject)
    cpus = int((analysis.record.plan.get("machine") or {}).get("cpus", 0))
    looks = style.looks(analysis.shown, analysis.subject)
    series = style.looks_of_workloads(planned.compared(analysis))
    return analysis, Frame(looks, analysis.subject, cpus, series)


def contents_of(analysis: Analysis, frame: Frame) -> page.Contents:
    """Every figure of a report."""
    return page.Contents(
        scatter=figures.time_against_memory(analysis, frame),
        heat_maps=figures.heat_maps(analysis, frame),
        planned=planned.planned(analysis, frame),
        timelines=timelines.of(analysis),
        ratios=figures.ratios(analysis, frame),
        latencies=counts.latencies(analysis, frame),
        counts=tuple(
            figure
            for draw in (counts.counts, counts.instructions)
            if (figure := draw(analysis, frame))
        ),
    )


def build(path: Path, folder: Path, subject: str | None = None) -> Path:
    """Writes the report of a results file into `folder`. Returns the page. Raises RecordError."""
    analysis, frame = open_record(path, subject)
    contents = contents_of(analysis, frame)
    text = page.render(analysis, frame, contents)
    folder.mkdir(parents=True, exist_ok=True)
    for timeline in contents.timelines:
        if timeline.png:
            (folder / f"{timeline.name}.png").write_bytes(timeline.png)
    for figure in contents.all():
        theme.write_picture(figure, frame, folder / f"{figure.name}.png")
        with (folder / f"{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
            write_csv(figure.rows, file)
    target = folder / "index.html"
    target.write_text(text, encoding="utf-8")
    return target


def draw_figure(path: Path, name: str, target: Path, subject: str | None = None) -> None:
    """Writes one figure, as PNG or SVG. Raises RecordError when there is none of this name."""
    analysis, frame = open_record(path, subject)
    contents = contents_of(analysis, frame)
    found: list[Figure | Timeline] = [*contents.all(), *contents.timelines]
    chosen = next((figure for figure in found if figure.name == name), None)
    if chosen is None:
        names = ", ".join(figure.name for figure in found)
        raise RecordError(f"no figure '{name}'; there are: {names}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not _write(chosen, frame, target):
        raise RecordError(f"figure '{name}' has nothing to draw")


def _write(figure: Figure | Timeline, frame: Frame, target: Path) -> bool:
    if isinstance(figure, Figure):
        return theme.write_picture(figure, frame, target)
    target.write_bytes(figure.png)
    return bool(figure.png)
