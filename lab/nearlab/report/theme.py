"""The charts' colours on a light and on a dark page, and the picture of a figure.

Invariant: a theme changes colours and nothing else.
"""

import textwrap
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from nearlab.report.charts import Chart, Frame
from nearlab.report.figures import Figure

_INK = {"light": "#1b1f24", "dark": "#e8ebef"}
_QUIET = {"light": "#59626d", "dark": "#a3adb9"}
_LINES = {"light": "#e3e6ea", "dark": "#2c343d"}
_COLUMNS = 3
_PANEL_WIDTH = 330
_PANEL_LETTERS = 70  # of a subtitle, above a panel


def config(theme: str, frame: Frame) -> dict[str, Any]:
    """Vega-Lite's configuration of a theme: `light` or `dark`."""
    ink, quiet, lines = _INK[theme], _QUIET[theme], _LINES[theme]
    colors = [look.light if theme == "light" else look.dark for look in frame.everything.values()]
    return {
        "background": None,
        "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
        "range": {"category": colors},
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink,
            "titleColor": quiet,
            "gridColor": lines,
            "domainColor": quiet,
            "tickColor": quiet,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "legend": {"labelColor": ink, "labelFontSize": 12, "symbolOpacity": 1},
        "title": {"color": ink, "fontSize": 13, "anchor": "start"},
        "style": {
            "base": {"color": ink, "stroke": ink},
            "quiet": {"color": quiet, "fill": quiet, "fontSize": 11},
            "shade": {"color": quiet, "opacity": 0.12},
        },
    }


def page_config(theme: str, frame: Frame) -> dict[str, Any]:
    """The same for the page, which has its own legends and captions."""
    return config(theme, frame) | {"legend": {"disable": True}, "aria": False}


def page_spec(chart: Chart, frame: Frame) -> dict[str, Any]:
    """The chart for the page: as wide as its place, without the allocators that the page's filter
    hides."""
    spec: dict[str, Any] = chart.properties(width="container").to_dict(validate=False)
    del spec["config"], spec["$schema"]
    spec["params"] = [*spec.get("params", []), {"name": "hidden", "value": []}]
    _hide(spec)
    for layer in spec.get("layer", [spec]):
        for encoding in layer.get("encoding", {}).values():
            if isinstance(encoding, dict) and "legend" in encoding:
                encoding["legend"] = None
    return spec


def _hide(spec: dict[str, Any]) -> None:
    """Every layer with allocators leaves out the hidden ones."""
    for layer in spec.get("layer", [spec]):
        if "allocator" in str(layer.get("encoding", {})) or "layer" not in spec:
            rule = {"filter": "indexof(hidden, datum.allocator) < 0"}
            layer["transform"] = [rule, *layer.get("transform", [])]


def write_picture(figure: Figure, frame: Frame, path: Path) -> bool:
    """Writes the figure to `path`, on white: as SVG if the name ends so, otherwise as PNG. Returns
    False if it has nothing to draw."""
    chart = figure.heat or _together(figure)
    if chart is None:
        return False
    chart = chart.properties(
        title=alt.TitleParams(
            text=figure.title,
            subtitle=_lines(figure),
            fontSize=16,
            subtitlePadding=5,
            anchor="start",
            offset=14,
        ),
        padding=14,
    )
    spec = chart.to_dict(validate=False)
    spec["config"] = config("light", frame) | {"background": "#ffffff"}
    if path.suffix == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec) + "\n", encoding="utf-8")
    else:
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    return True


def _lines(figure: Figure) -> list[str]:
    """The setting in lines that are not wider than the panels."""
    columns = max(2, min(len(figure.panels), _COLUMNS))  # one panel is as wide as two
    return textwrap.wrap(figure.setting, columns * _PANEL_LETTERS)


def _together(figure: Figure) -> Chart | alt.ConcatChart | None:
    if not figure.panels:
        return None
    if len(figure.panels) == 1:
        return figure.panels[0].chart.properties(width=660)
    charts = [
        panel.chart.properties(width=_PANEL_WIDTH, title=panel.title) for panel in figure.panels
    ]
    return alt.concat(*charts, columns=_COLUMNS)
