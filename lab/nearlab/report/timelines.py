"""The timelines that a plan asks for, drawn from the records of their runs.

Invariant: each timeline that the plan asks for is here, drawn or with the reason why not.
"""

import base64
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearlab.report import style
from nearlab.report.analysis import Analysis
from nearlab.report.tables import Table
from nearlab.results.journal import timelines_of
from nearlab.results.record import NOT_RUN
from nearlab.timeline.file import TimelineError


@dataclass(frozen=True, slots=True)
class Timeline:
    """A [[timeline]] under one allocator. If there is no picture, `problem` says why."""

    name: str
    title: str
    caption: str
    png: bytes = b""
    problem: str = ""
    result: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def numbers(self) -> Table:
        """Returns the numbers that its run reported."""
        numbers = {key: n for key, n in self.result.items() if isinstance(n, float | int)}
        rows = tuple((key, style.number(value)) for key, value in numbers.items())
        return Table(("number", "value"), rows, empty="The run gave no numbers.")

    @property
    def source(self) -> str:
        """The picture as the page holds it."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


def of(analysis: Analysis) -> list[Timeline]:
    """Returns all timelines of the chosen cells, in the plan's order."""
    plan = tomllib.loads(analysis.record.plan.get("plan_toml", ""))
    found = []
    for entry in plan.get("timeline", []):
        if entry["cell"] in analysis.record.cell_by_name:
            wanted = entry.get("allocators") or [one.name for one in analysis.record.allocators]
            there = [name for name in wanted if name in analysis.record.allocator_by_name]
            found += [_timeline(analysis, entry, name) for name in there]
    return found


def _timeline(analysis: Analysis, entry: dict[str, Any], allocator: str) -> Timeline:
    cell = entry["cell"]
    title = f"{entry.get('title') or cell}, {allocator}"
    about = f"{entry['name']}-{allocator}", title, entry.get("caption", "")
    record = analysis.record.extras["timeline"].get((cell, allocator))
    if record is None or record["failure"]:
        problem = record["failure"] if record else analysis.record.problem(cell, allocator)
        return Timeline(*about, problem=problem or NOT_RUN)
    from nearlab.timeline import command as timeline  # the drawing library takes a second to load

    result = record["result"] or {}
    path = timelines_of(analysis.record.path) / record["file"]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "timeline.png"
        try:
            begin, end = entry.get("window_ms", (None, None))
            timeline.draw(path, target, title, from_ms=begin, to_ms=end, kind=entry.get("kind"))
            return Timeline(*about, png=target.read_bytes(), result=result)
        except (TimelineError, OSError) as error:
            return Timeline(*about, problem=str(error))
