"""Small results, worked out by hand, and the parts of a report on them, for the report's tests."""

from pathlib import Path

import results_file as make
from nearlab.report import figures, planned, style
from nearlab.report.analysis import Analysis
from nearlab.report.charts import Frame
from nearlab.results import record

# Seconds by cell and allocator; memory is the same number of MiB. Medians: churn 4, 2, 8; larson
# 2, 1, 4; phong 1, 4 for glibc and nearmalloc.
SECONDS = {
    "churn": {"glibc": [4, 4, 4, 3, 5], "nearmalloc": [2, 2, 2, 1, 3], "tbb": [8, 8, 8, 8, 9]},
    "larson": {"glibc": [2] * 5, "nearmalloc": [1] * 5, "tbb": [4] * 5},
    "phong": {"glibc": [1] * 5, "nearmalloc": [4] * 5, "tbb": [2] * 5},
}


def content(seconds=SECONDS, *, names=("nearmalloc", "glibc", "tbb"), figure="") -> list[dict]:
    cells = [make.cell(name) for name in seconds]
    found = [make.plan_line(list(names), cells, figures=figure, rounds=5)]
    for cell, by_name in seconds.items():
        for name, values in by_name.items():
            for number, value in enumerate(values, 1):
                metrics = {"seconds": float(value), "memory_kib": 1024.0 * value}
                found.append(make.run_line(cell, name, number, metrics))
    return found


def analyse(tmp_path: Path, lines: list[dict], subject: str | None = None) -> Analysis:
    path = make.write(tmp_path / "quick" / "20261121-100000.jsonl", lines)
    return Analysis(record.read(path), subject)


def frame_of(analysis: Analysis) -> Frame:
    return Frame(style.looks(analysis.shown, analysis.subject), analysis.subject, 2)


def drawn(tmp_path: Path, figure: str, lines: list[dict] | None = None) -> figures.Figure:
    """The only planned figure."""
    analysis = analyse(tmp_path, lines or content(figure=figure))
    (found,) = planned.planned(analysis, frame_of(analysis))
    for panel in found.panels:
        panel.chart.to_dict()  # Altair checks it against Vega-Lite's schema
    return found


def values(found: figures.Figure) -> dict[tuple, float | None]:
    return {(row.cell, row.allocator): row.value for row in found.rows}


FIGURE = """
[[figure]]
name = "one"
title = "One"
caption = "A paper, figure 1."
"""


def threads_content(figure: str) -> list[dict]:
    cells = [make.cell("larson", threads=count) for count in (1, 2, 4)]
    found = [make.plan_line(["glibc", "tbb"], cells, figures=figure, rounds=5)]
    seconds = {"glibc": {1: 8.0, 2: 8.0, 4: 4.0}, "tbb": {1: 4.0, 2: 2.0, 4: 1.0}}
    for name, by_threads in seconds.items():
        for count, value in by_threads.items():
            for number in range(1, 6):
                found.append(make.run_line(f"larson t={count}", name, number, {"seconds": value}))
    return found
