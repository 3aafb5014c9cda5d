"""The charts, in Vega-Lite: one description gives the PNG and the interactive chart of the page.

Invariant: a chart draws the rows it is given; colours and shapes come from `style` by the name of
the allocator alone. The page gives a chart its width; the PNG's width is fixed here.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import altair as alt
import pandas as pd  # type: ignore[import-untyped]  # it has no types

from nearlab.report import style
from nearlab.report.labels import Box, Point, place
from nearlab.report.rows import NO_MEANING, NO_NUMBER, Row, shown
from nearlab.report.style import Look
from nearlab.results.record import MISSING, NOT_RUN

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
SCATTER_HEIGHT = 420
_WIDE, _NARROW = 640, 250  # plot widths for which the labels of a scatter are placed
_HEIGHT = 260
_BAR = 19  # the height of one bar with its gap


@dataclass(frozen=True, slots=True)
class Frame:
    """The allocators shown, the look of each, and the highlighted one. If workloads are compared,
    each of `series` has a look of its own, and `compared` are drawn."""

    looks: dict[str, Look]
    subject: str | None
    cpus: int
    series: dict[str, Look] = field(default_factory=dict)
    compared: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(self.looks)

    @property
    def everything(self) -> dict[str, Look]:
        return self.looks | self.series

    @property
    def drawn(self) -> list[str]:
        """The names of a chart's marks, in their order."""
        return list(self.compared) or self.names

    def of_workloads(self, labels: Iterable[str]) -> Self:
        """The frame of charts that compare these workloads."""
        return replace(self, subject=None, compared=tuple(labels))

    def color(self) -> alt.Color:
        """The scale of colours, in the order of the names; the page's theme supplies the colours.
        """
        scale = alt.Scale(domain=list(self.everything), range="category")
        return alt.Color("allocator:N", scale=scale, title=None, **self._legend())

    def color_alone(self) -> alt.Color:
        """The same without a legend, for charts with names beside the marks."""
        return self.color().legend(None)

    def shape(self) -> alt.Shape:
        scale = self._scale([look.shape for look in self.everything.values()])
        return alt.Shape("allocator:N", scale=scale, title=None, **self._legend())

    def dash(self) -> alt.StrokeDash:
        scale = self._scale([list(look.dash) for look in self.everything.values()])
        return alt.StrokeDash("allocator:N", scale=scale, title=None, **self._legend())

    def _scale(self, values: list[str] | list[list[int]]) -> alt.Scale:
        return alt.Scale(domain=list(self.everything), range=values)

    def _legend(self) -> dict[str, Any]:
        """The legend of the marks that are drawn, if the frame has others too."""
        return {"legend": alt.Legend(values=self.drawn)} if self.series else {}

    def by_subject(self, yes: float, no: float) -> Mapping[str, Any]:
        test = f"datum.allocator === {json.dumps(self.subject)}"
        return alt.condition(test, alt.value(yes), alt.value(no))


def _data(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as the chart needs them: numbers, and words for the tooltip."""
    words = _has_words(rows)
    return pd.DataFrame(
        [
            {
                "allocator": row.allocator,
                "cell": row.cell,
                "x": str(row.x) if words else row.x,
                "value": row.value,
                "low": row.low,
                "high": row.high,
                "shown": shown(row),
                "note": row.note + (", oversubscribed" if row.oversubscribed else ""),
            }
            for row in rows
        ],
        columns=["allocator", "cell", "x", "value", "low", "high", "shown", "note"],
    )


_TOOLTIP = [
    alt.Tooltip("allocator:N"),
    alt.Tooltip("cell:N"),
    alt.Tooltip("shown:N", title="value"),
    alt.Tooltip("note:N"),
]


def _log_domain(values: Sequence[float], least: float = 1.15) -> list[float]:
    low, high = min(values), max(values)
    room = max((high / low) ** 0.06, 1.03)
    return [min(low / room, 1 / least), max(high * room, least)]


_STEPS = (  # ticks, by how many times the upper end of the axis is the lower one
    (1.6, [step / 20 for step in range(10, 41)]),
    (4, [step / 10 for step in range(1, 20)] + [2, 2.25, 2.5, 2.75, 3, 3.5, 4]),
    (12, [0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]),
    (math.inf, [digit * 10.0**power for power in range(-4, 7) for digit in (1, 2, 5)]),
)


_APART: dict[str, Any] = {"labelOverlap": "greedy", "labelSeparation": 6}
_SHORT: dict[str, Any] = {  # 0, 500, 1.5k
    "format": "~s",
    "labelExpr": "datum.value === 0 ? '0' : datum.label",
}


def _ratio_axis(domain: Sequence[float], title: str) -> dict[str, Any]:
    """A logarithmic scale of ratios, with ticks at round numbers."""
    wide = domain[1] / domain[0]
    steps = next(steps for most, steps in _STEPS if wide <= most)
    ticks = [step for step in steps if domain[0] <= step <= domain[1]]
    axis = alt.Axis(values=ticks, format="~g", title=title, **_APART)
    return {"scale": alt.Scale(type="log", domain=list(domain), nice=False), "axis": axis}


def scatter(
    pairs: Sequence[tuple[Row, Row]],
    frame: Frame,
    titles: tuple[str, str],
    *,
    narrow: bool = False,
) -> Chart:
    """A point for each allocator at (first, second), both ratios, with both intervals, and thin
    lines to the means without one of the rows. `narrow`: beside other panels."""
    whole = [(x, y) for x, y in pairs if x.value is not None and y.value is not None]
    x_domain = _log_domain([v for x, _ in whole for v in (*_reach(x), *_without(x))])
    y_domain = _log_domain([v for _, y in whole for v in (*_reach(y), *_without(y))])
    x = alt.X("x:Q", **_ratio_axis(x_domain, titles[0]))
    y = alt.Y("y:Q", **_ratio_axis(y_domain, titles[1]))
    base = alt.Chart(_points(whole)).encode(color=frame.color_alone())
    one = alt.Chart(pd.DataFrame([{"one": 1}])).mark_rule(opacity=0.6, style="base")
    reach = base.mark_rule(strokeWidth=1.5, opacity=0.6)
    thin = base.mark_rule(strokeWidth=0.8, opacity=0.35)
    corner = alt.Chart(pd.DataFrame([{"text": "↙ better"}])).mark_text(
        align="left", baseline="bottom", style="quiet", fontStyle="italic"
    )
    layers = [
        corner.encode(x=alt.value(6), y=alt.value(SCATTER_HEIGHT - 6), text="text:N"),
        one.encode(x="one:Q"),
        one.encode(y="one:Q"),
        thin.encode(x=alt.X("x_without_low:Q"), x2="x_without_high:Q", y=y),
        thin.encode(x=x, y=alt.Y("y_without_low:Q"), y2="y_without_high:Q"),
        reach.encode(x=alt.X("x_low:Q"), x2="x_high:Q", y=y),
        reach.encode(x=x, y=alt.Y("y_low:Q"), y2="y_high:Q"),
        base.mark_point(filled=True, opacity=1).encode(
            x=x,
            y=y,
            shape=frame.shape().legend(None),
            size=frame.by_subject(260, 110),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("allocator", "time", "memory")],
        ),
        *_scatter_labels(whole, frame, x_domain, y_domain, narrow),
    ]
    return alt.layer(*layers).properties(height=SCATTER_HEIGHT)


def _reach(row: Row) -> tuple[float, float]:
    """The ends of the row's interval; the value itself if it has none."""
    assert row.value is not None, "only rows with a number are drawn"
    if row.low is None or row.high is None:
        return row.value, row.value
    return row.low, row.high


def _without(row: Row) -> tuple[float, ...]:
    """The ends of the means without one of the rows."""
    return tuple(end for end in (row.without_low, row.without_high) if end is not None)


def _points(whole: Sequence[tuple[Row, Row]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "allocator": x.allocator,
                "x": x.value,
                "x_low": x.low,
                "x_high": x.high,
                "y": y.value,
                "y_low": y.low,
                "y_high": y.high,
                "x_without_low": x.without_low,
                "x_without_high": x.without_high,
                "y_without_low": y.without_low,
                "y_without_high": y.without_high,
                "time": shown(x),
                "memory": shown(y),
            }
            for x, y in whole
        ]
    )


def _scatter_labels(
    whole: Sequence[tuple[Row, Row]],
    frame: Frame,
    x_domain: Sequence[float],
    y_domain: Sequence[float],
    narrow: bool,
) -> list[alt.Chart]:
    """Names beside the points, placed for a wide and for a narrow chart; the chart's width selects
    one, unless it is narrow anyway."""
    points = [
        Point(
            x.allocator,
            _share(x.value, x_domain),
            1 - _share(y.value, y_domain),
            (_share(low, x_domain), _share(high, x_domain)),
        )
        for x, y in whole
        for low, high in [_reach(x)]
        if x.value is not None and y.value is not None
    ]
    found = []
    wide = ((_WIDE, "width >= 420"), (_NARROW, "width < 420"))
    for width, wanted in ((_NARROW, "true"),) if narrow else wide:
        box = Box(width, SCATTER_HEIGHT)
        lines = _share(1, x_domain), 1 - _share(1, y_domain)
        rows = [
            {
                "allocator": label.name,
                "x": x_domain[0] * (x_domain[1] / x_domain[0]) ** label.x,
                "y": y_domain[0] * (y_domain[1] / y_domain[0]) ** (1 - label.y),
                "right": label.right,
            }
            for label in place(points, box, lines)
        ]
        base = alt.Chart(pd.DataFrame(rows)).transform_filter(wanted)
        for right, dx in ((True, 11), (False, -11)):
            text = base.transform_filter(f"datum.right === {str(right).lower()}")
            found.append(
                text.mark_text(
                    align="left" if right else "right", dx=dx, fontSize=12, fontWeight="bold"
                ).encode(x="x:Q", y="y:Q", text="allocator:N", color=frame.color_alone())
            )
    return found


def _share(value: float, domain: Sequence[float]) -> float:
    return math.log(value / domain[0]) / math.log(domain[1] / domain[0])


def lines(rows: Sequence[Row], frame: Frame, x_title: str, y_title: str, ratio: bool) -> Chart:
    """A line for each allocator over x; a gap where it failed. Oversubscription is shaded."""
    base = alt.Chart(_data(rows)).encode(x=_places(rows, x_title), color=frame.color())
    y = alt.Y("value:Q", **_heights(rows, y_title, ratio))
    layers = [
        base.mark_line(strokeJoin="round").encode(
            y=y, strokeDash=frame.dash(), strokeWidth=frame.by_subject(3.2, 1.6)
        ),
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, opacity=1).encode(
            y=y, shape=frame.shape(), size=frame.by_subject(110, 60), tooltip=_TOOLTIP
        ),
    ]
    return alt.layer(*_oversubscribed(rows), *layers).properties(height=_HEIGHT)


def _has_words(rows: Sequence[Row]) -> bool:
    return any(isinstance(row.x, str) for row in rows)


def _numbers(rows: Iterable[Row]) -> list[float]:
    """Returns the places of the rows on a numeric axis, in order."""
    return sorted({row.x for row in rows if isinstance(row.x, float | int)})


def _places(rows: Sequence[Row], title: str) -> alt.X:
    """The x axis with a tick at each value: logarithmic for wide ranges; words in their order."""
    if _has_words(rows):
        order = list(dict.fromkeys(str(row.x) for row in rows))
        return alt.X("x:O", sort=order, axis=alt.Axis(title=title, grid=False, labelAngle=0))
    places = _numbers(rows)
    wide = len(places) > 2 and places[0] > 0 and places[-1] / places[0] >= 8
    how: dict[str, Any] = {"type": "log", "base": 2} if wide else {"zero": False}
    axis = alt.Axis(values=places, labelExpr=_COUNT, title=title, grid=False, **_APART)
    return alt.X("x:Q", axis=axis, scale=alt.Scale(nice=False, padding=14, **how))


def _heights(rows: Sequence[Row], title: str, ratio: bool) -> dict[str, Any]:
    """The y axis: logarithmic for ratios and for wide ranges, otherwise from 0."""
    values = [v for row in rows if row.value is not None for v in _reach(row)] or [1.0]
    if ratio:
        return _ratio_axis(_log_domain([value for value in values if value > 0] or [1.0]), title)
    wide = min(values) > 0 and max(values) / min(values) > 12
    scale = alt.Scale(type="log") if wide else alt.Scale(zero=True)
    return {"scale": scale, "axis": alt.Axis(title=title, **_SHORT)}


# 64, 1 Ki, 256 Ki, 1 Mi; 1,000 and 12M.
_COUNT = (
    "datum.value >= 1048576 && datum.value % 1048576 === 0 ? datum.value / 1048576 + ' Mi' : "
    "datum.value >= 1024 && datum.value % 1024 === 0 ? datum.value / 1024 + ' Ki' : "
    "format(datum.value, datum.value < 1e6 ? ',' : '~s')"
)


def _oversubscribed(rows: Sequence[Row]) -> list[Chart]:
    """The region of the x axis with more threads than CPUs, shaded and named."""
    if _has_words(rows):
        return []
    over = _numbers(row for row in rows if row.oversubscribed)
    within = _numbers(row for row in rows if not row.oversubscribed)
    if not over:
        return []
    start = math.sqrt(within[-1] * over[0]) if within and within[-1] < over[0] else over[0]
    data = pd.DataFrame([{"start": start, "end": over[-1], "name": "oversubscribed"}])
    area = alt.Chart(data).mark_rect(style="shade").encode(x="start:Q", x2="end:Q")
    text = alt.Chart(data).mark_text(align="left", baseline="top", dx=4, dy=4, style="quiet")
    return [area, text.encode(x="start:Q", y=alt.value(0), text="name:N")]


def bars(
    rows: Sequence[Row], frame: Frame, title: str, ratio: bool, scale_of: Sequence[Row]
) -> Chart:
    """A bar for each allocator, with its interval; a failed one has the reason in words instead.
    The scale of ratios covers all rows in `scale_of`, so that panels can be compared."""
    data = _data(rows)
    values = [v for row in scale_of if row.value is not None for v in _reach(row) if v > 0]
    found = {row.allocator: math.inf if row.value is None else row.value for row in rows}
    names = sorted((name for name in frame.drawn if name in found), key=lambda name: found[name])
    y = alt.Y("allocator:N", sort=names, title=None, axis=alt.Axis(grid=False, domain=False))
    if ratio:
        x = _ratio_axis(_log_domain(values or [1.0]), title)
        start = {"x2": alt.datum(1)}
    else:
        axis = alt.Axis(title=title, tickCount=5, **_SHORT)
        x, start = {"scale": alt.Scale(zero=True), "axis": axis}, {}
    base = alt.Chart(data).encode(y=y)
    text = base.transform_filter("datum.value === null")
    layers = [
        base.mark_bar(height=_BAR - 6, cornerRadius=2).encode(
            x=alt.X("value:Q", **x),
            **start,
            color=frame.color_alone(),
            opacity=frame.by_subject(1, 0.8),
            tooltip=_TOOLTIP,
        ),
        text.mark_text(align="left", dx=5, fontStyle="italic", style="quiet").encode(
            x=alt.value(0), text="note:N"
        ),
    ]
    if any(row.low is not None for row in rows):
        rule = base.mark_rule(strokeWidth=1.5, style="base")
        layers.append(rule.encode(x=alt.X("low:Q"), x2="high:Q"))
    return alt.layer(*layers).properties(height=_BAR * max(1, len(names)))


def curves(rows: Sequence[Row], frame: Frame, x_title: str, y_title: str) -> Chart:
    """A line of many points for each allocator."""
    axis = alt.Axis(title=x_title, tickCount=5, grid=False, **_SHORT)
    chart: alt.Chart = (
        alt.Chart(_data(rows))
        .mark_line()
        .encode(
            x=alt.X("x:Q", axis=axis, scale=alt.Scale(nice=False, zero=False)),
            y=alt.Y("value:Q", axis=alt.Axis(title=y_title, **_SHORT)),
            color=frame.color(),
            strokeDash=frame.dash(),
            strokeWidth=frame.by_subject(3.2, 1.6),
            tooltip=[*_TOOLTIP, alt.Tooltip("x:Q", title=x_title)],
        )
        .properties(height=_HEIGHT)
    )
    return chart


def heat_map(rows: Sequence[Row], frame: Frame, cells: Sequence[str]) -> Chart:
    """Ratios as colours, blue for less and orange for more; a failed cell is grey and says so."""
    data = _data(rows)
    data["text"] = [heat_text(row) for row in rows]
    data["level"] = [heat_level(row.value) for row in rows]
    ink = alt.condition("abs(datum.level) > 0.75", alt.value("#ffffff"), alt.value("#1b1f24"))
    x = alt.X(
        "allocator:N",
        sort=frame.names,
        title=None,
        axis=alt.Axis(orient="top", labelAngle=-40, domain=False, ticks=False),
    )
    y = alt.Y(
        "cell:N",
        sort=list(cells),
        title=None,
        axis=alt.Axis(domain=False, ticks=False, labelLimit=240),
    )
    scale = alt.Scale(domain=[-1, 0, 1], range=["#0b5fa5", "#f7f7f7", "#b3480c"], clamp=True)
    base = alt.Chart(data).encode(x=x, y=y)
    level = alt.Color("level:Q", scale=scale, legend=None)
    rect = base.mark_rect(stroke="#ffffff", invalid=None).encode(
        color=alt.condition("datum.level === null", alt.value("#e3e5e8"), level)
    )
    text = base.mark_text(fontSize=10.5).encode(text="text:N", color=ink)
    return alt.layer(rect, text).properties(width=alt.Step(62), height=alt.Step(21))


def heat_text(row: Row) -> str:
    """Returns the text of a tile."""
    if row.value is None:
        return heat_word(row.note)
    return style.ratio(row.value) + ("~" if "noisy" in row.note or "busy" in row.note else "")


def heat_word(note: str) -> str:
    """Returns the word for a missing number."""
    if note in (NOT_RUN, NO_MEANING):
        return "–"
    return MISSING if note.startswith(MISSING) else "n/a" if note == NO_NUMBER else "failed"


def heat_level(value: float | None) -> float | None:
    """From -1 (two fifths or less) over 0 (equal) to 1 (2.5 times or more)."""
    if value is None or value <= 0:
        return None
    return max(-1.0, min(1.0, math.log(value, 2.5)))
