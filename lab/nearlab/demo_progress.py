"""How far the demo is: a bar with the time left on a terminal, else a plain line for each run.

Invariant: all of it goes to stderr, so that stdout holds the result alone. The time left is the
sum over the steps to come of what runs of the same program took. Touched by: demo.py, one thread.
"""

import os
import statistics
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from .demo_run import Record, Step

_GUESS_S = 3.0  # for a run before any was seen


class Forecast:
    """The steps to come, and what those that are done say of how long they will take."""

    def __init__(self, steps: Sequence[Step]):
        self.total = len(steps)
        self._to_come = list(steps)
        self._took: dict[str, list[float]] = {}

    @property
    def done(self) -> int:
        return self.total - len(self._to_come)

    def add(self, record: Record, seconds: float) -> None:
        """Effect: the step is done; so are all others of its program when it failed."""
        step = record.step
        self._took.setdefault(step.program.name, []).append(seconds)
        self._to_come = [
            other
            for other in self._to_come
            if other is not step and not (record.failure and other.program is step.program)
        ]

    def left_s(self) -> float:
        """What the steps to come will take, in seconds."""
        medians = {name: statistics.median(took) for name, took in self._took.items()}
        unknown = statistics.fmean(medians.values()) if medians else _GUESS_S
        return sum(medians.get(step.program.name, unknown) for step in self._to_come)


class _LeftColumn(ProgressColumn):
    """The time left, going down while a step runs."""

    def __init__(self, watch: "Watch"):
        super().__init__()
        self._watch = watch

    def render(self, task: Task) -> Text:
        return Text(f"{clock(self._watch.left_s())} left", style="progress.remaining")


class Watch:
    """Shows how far the steps are; use it as a context."""

    def __init__(self, steps: Sequence[Step]):
        self._forecast = Forecast(steps)
        self._started = time.monotonic()
        self._console = Console(stderr=True)
        self._bar = None
        if self._console.is_terminal and os.environ.get("CI") != "true":
            columns = (BarColumn(), _LeftColumn(self), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("", total=len(steps))

    def __enter__(self) -> "Watch":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        if self._bar:
            self._bar.stop()

    def left_s(self) -> float:
        return max(0.0, self._forecast.left_s() - (time.monotonic() - self._started))

    def before(self, step: Step) -> None:
        self._started = time.monotonic()
        if self._bar:
            text = f"{step.when()}: {step.program.name}, {step.allocator.label}"
            self._bar.update(self._task, description=text)

    def after(self, record: Record) -> None:
        now = time.monotonic()
        self._forecast.add(record, now - self._started)
        self._started = now
        if self._bar:
            self._bar.update(self._task, completed=self._forecast.done)
        else:
            self._print_line(record)

    def _print_line(self, record: Record) -> None:
        step = record.step
        result = record.failure or f"{record.run.wall_s:.2f} s"
        self._console.print(
            f"{self._forecast.done}/{self._forecast.total} {step.when()}: {step.program.name}, "
            f"{step.allocator.label}: {result}, {clock(self.left_s())} left",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
