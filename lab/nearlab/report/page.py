"""The report's page: one file that needs nothing else, neither a network nor a folder beside it.

Invariant: everything that is shown comes from the record through figures and tables; the page's own
policy forbids it to load anything.
"""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import altair
import jinja2
import vl_convert

from nearlab.report import charts, figures, tables, theme
from nearlab.report.analysis import TIME, Analysis
from nearlab.report.charts import Frame
from nearlab.report.figures import Figure
from nearlab.report.rows import Row, shown, write_csv
from nearlab.report.timelines import Timeline
from nearlab.report.verdict import verdict

_HERE = Path(__file__).parent
_HEAT_DEPTH = 66  # percent of the colour at two fifths, or at 2.5 times, of the baseline


@dataclass(frozen=True, slots=True)
class Contents:
    """The figures by their place in the page; timelines are pictures, not charts."""

    scatter: Figure
    heat_maps: Sequence[Figure]
    planned: Sequence[Figure]
    timelines: Sequence[Timeline]
    ratios: Sequence[Figure]
    latencies: Figure | None
    counts: Sequence[Figure]

    def all(self) -> list[Figure]:
        latencies = [self.latencies] if self.latencies else []
        figures = [self.scatter, *self.heat_maps, *self.planned, *self.ratios]
        return [*figures, *latencies, *self.counts]


@dataclass(frozen=True, slots=True)
class _Tile:
    """A cell of a heat-map in the page."""

    allocator: str
    text: str
    hint: str
    side: str
    depth: int


def render(analysis: Analysis, frame: Frame, contents: Contents) -> str:
    """Returns the page as text."""
    loader = jinja2.FileSystemLoader(_HERE)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(numbers=tables.numbers, heat_rows=_heat_rows, csv=_csv)
    record = analysis.record
    specs = {
        f"{figure.name}-{index}": theme.page_spec(panel.chart, frame)
        for figure in contents.all()
        for index, panel in enumerate(figure.panels)
    }
    return environment.get_template("page.html").render(
        analysis=analysis,
        record=record,
        plan=record.plan,
        date=_date(record.plan.get("date", "")),
        frame=frame,
        heights={name: _height(spec) for name, spec in specs.items()},
        shapes={name: _SHAPES[look.shape] for name, look in frame.everything.items()},
        index={name: at for at, name in enumerate(frame.everything)},
        contents=contents,
        verdict=verdict(analysis),
        tables=tables,
        headings={one: figures.heading(analysis, one, analysis.common(TIME, one))
                  for one in analysis.origins},
        failures=tables.failures(record),
        busy=tables.disturbed(record),
        specs=_json(specs),
        themes=_json({name: theme.page_config(name, frame) for name in ("light", "dark")}),
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        library=_library(),
    )


_SHAPES = {  # as Vega draws them, in a box of 12
    "circle": "M6 1a5 5 0 1 0 .01 0z",
    "square": "M1.5 1.5h9v9h-9z",
    "diamond": "M6 0l6 6-6 6-6-6z",
    "cross": "M4 1h4v3h3v4H8v3H4V8H1V4h3z",
    "triangle-up": "M6 1l5.5 10H.5z",
    "triangle-down": "M6 11L.5 1h11z",
    "triangle-left": "M1 6L11 .5v11z",
    "triangle-right": "M11 6L1 11.5V.5z",
}


def _height(spec: dict[str, Any]) -> int:
    """Returns the estimated height of the chart, so that the page does not move when it is drawn.
    """
    height: int = spec["height"]
    return height + 45


def _date(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{found.day} {found:%B %Y, %H:%M} UTC"


def _json(value: object) -> str:
    """JSON that can stand in a script element."""
    return json.dumps(value, allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\!--")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    script = vl_convert.javascript_bundle(  # type: ignore[call-arg]  # snippet is optional
        vl_version=version
    )
    return re.sub(r"</(?=script)", r"<\\/", script, flags=re.IGNORECASE)


def _csv(rows: Sequence[Row]) -> str:
    """The rows as in the figure's CSV; a `<` could end the element that holds them."""
    text = io.StringIO()
    write_csv(rows, text)
    return text.getvalue().replace("<", "‹")


def _heat_rows(figure: Figure) -> dict[str, dict[str, list[_Tile]]]:
    """Tiles by group and cell."""
    found: dict[str, dict[str, list[_Tile]]] = {}
    for row in figure.rows:
        group = found.setdefault(row.group or "all", {})
        group.setdefault(row.cell, []).append(_tile(row))
    return found


def _tile(row: Row) -> _Tile:
    level = charts.heat_level(row.value)
    if level is None:
        return _Tile(row.allocator, charts.heat_word(row.note), row.note, "none", 0)
    text = charts.heat_text(row)
    hint = f"{shown(row)}{f', {row.note}' if row.note else ''}"
    side = "more" if level > 0 else "less"
    return _Tile(row.allocator, text, hint, side, round(abs(level) * _HEAT_DEPTH))
