"""The timelines that a plan asks for, drawn from what their runs recorded.

Invariant: a timeline that was asked for is here, drawn or with the reason why not.
"""

import base64
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from ..journal import timelines_of
from ..record import NOT_RUN
from . import style
from .analysis import Analysis
from .tables import Table


@dataclass(frozen=True, slots=True)
class Timeline:
    """A [[timeline]] under one allocator; without a picture `problem` says why."""

    name: str
    title: str
    caption: str
    png: bytes = b""
    problem: str = ""
    result: dict = field(default_factory=dict)

    @property
    def numbers(self) -> Table:
        """What its run reported."""
        numbers = {key: n for key, n in self.result.items() if isinstance(n, float | int)}
        rows = tuple((key, style.number(value)) for key, value in numbers.items())
        return Table(("number", "value"), rows, empty="The run gave no numbers.")

    @property
    def source(self) -> str:
        """The picture as the page holds it."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


def of(analysis: Analysis) -> list[Timeline]:
    """All timelines of the plan's cells that were chosen, in its order."""
    plan = tomllib.loads(analysis.record.plan.get("plan_toml", ""))
    found = []
    for entry in plan.get("timeline", []):
        if entry["cell"] in analysis.record.cell_by_name:
            wanted = entry.get("allocators") or [one.name for one in analysis.record.allocators]
            there = [name for name in wanted if name in analysis.record.allocator_by_name]
            found += [_timeline(analysis, entry, name) for name in there]
    return found


def _timeline(analysis: Analysis, entry: dict, allocator: str) -> Timeline:
    cell = entry["cell"]
    title = f"{entry.get('title') or cell}, {allocator}"
    about = f"{entry['name']}-{allocator}", title, entry.get("caption", "")
    record = analysis.record.extras["timeline"].get((cell, allocator))
    if record is None or record["failure"]:
        problem = record["failure"] if record else analysis.record.problem(cell, allocator)
        return Timeline(*about, problem=problem or NOT_RUN)
    from .. import timeline  # the drawing library takes a second to load

    result = record["result"] or {}
    path = timelines_of(analysis.record.path) / record["file"]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "timeline.png"
        try:
            begin, end = _window(entry, result)
            timeline.draw(
                path, target, title, from_ms=begin, to_ms=end, kind=entry.get("kind")
            )
            return Timeline(*about, png=target.read_bytes(), result=result)
        except (timeline.TimelineError, OSError) as error:
            return Timeline(*about, problem=str(error))


def _window(entry: dict, result: dict) -> tuple[float | None, float | None]:
    """What is drawn: of the measured region, where the workload says when that was."""
    begin, end = result.get("timeline_from_ms"), result.get("timeline_to_ms")
    if "window_ms" in entry:
        first, last = entry["window_ms"]
        begin, end = (begin or 0) + first, (begin or 0) + last
    return begin, end
