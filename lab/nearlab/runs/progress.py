"""Shows the progress of a series of runs: on a terminal a bar with the time left, otherwise lines.

Invariant: all of it goes to stderr, so that stdout holds only the result. The time left is the sum,
over the remaining steps, of the time that earlier steps of the same key took.
Thread-safety: one thread.
"""

import os
import statistics
import time
from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

_GUESS_S = 3.0  # for a step before any was seen


class Planned(Protocol):
    """A step to do. Steps with equal keys take about equally long."""

    @property
    def key(self) -> str: ...
    def text(self) -> str: ...


class Forecast:
    """The remaining steps, with the times of the finished ones to estimate theirs."""

    def __init__(self, steps: Sequence[Planned]):
        self.total = len(steps)
        self._to_come = {id(step): step for step in steps}
        self._took: dict[str, list[float]] = {}

    @property
    def done(self) -> int:
        return self.total - len(self._to_come)

    def add(self, step: Planned, seconds: float) -> None:
        """Records that the step is done and how long it took."""
        self._took.setdefault(step.key, []).append(seconds)
        self._to_come.pop(id(step), None)

    def left_s(self) -> float:
        """Returns the estimated time of the remaining steps, in seconds."""
        medians = {key: statistics.median(took) for key, took in self._took.items()}
        unknown = statistics.fmean(medians.values()) if medians else _GUESS_S
        return sum(medians.get(step.key, unknown) for step in self._to_come.values())


class _LeftColumn(ProgressColumn):
    """The time left, going down while a step runs."""

    def __init__(self, watch: "Watch"):
        super().__init__()
        self._watch = watch

    def render(self, task: Task) -> Text:
        return Text(f"{clock(self._watch.left_s())} left", style="progress.remaining")


class Watch:
    """Shows the progress of the steps; use it as a context."""

    def __init__(self, steps: Sequence[Planned], *, line_every_s: float = 0.0):
        """`line_every_s`: the least time between two plain lines, in seconds."""
        self._forecast = Forecast(steps)
        self._started = time.monotonic()
        self._line_every_s = line_every_s
        self._shown = time.monotonic()
        self._console = Console(stderr=True)
        self._bar = None
        if self._console.is_terminal and os.environ.get("CI") != "true":
            columns = (
                BarColumn(),
                TextColumn("{task.completed}/{task.total}"),
                _LeftColumn(self),
                TextColumn("{task.description}", markup=False),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=len(steps))

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def left_s(self) -> float:
        return max(0.0, self._forecast.left_s() - (time.monotonic() - self._started))

    def before(self, step: Planned) -> None:
        self._started = time.monotonic()
        if self._bar:
            self._bar.update(self._task, description=step.text())

    def after(self, step: Planned, result: str) -> None:
        """Records that the announced step is done."""
        now = time.monotonic()
        self._forecast.add(step, now - self._started)
        self._started = now
        if self._bar:
            self._bar.update(self._task, completed=self._forecast.done)
        if self._bar or now - self._shown < self._line_every_s:
            return
        self._shown = now
        self._console.print(
            f"{self._forecast.done}/{self._forecast.total} {step.text()}: {result}, "
            f"{clock(self.left_s())} left",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def clock(seconds: float) -> str:
    """Returns the time in minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
