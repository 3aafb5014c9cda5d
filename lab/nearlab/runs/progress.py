"""Shows the progress of a series of runs: on a terminal a bar with the time left, otherwise lines.

Invariant: all of it goes to stderr, so that stdout holds only the result. The time left is that of
the steps so far, on average: rounds are interleaved, so the steps to come are like them.
Thread-safety: one thread.
"""

import os
import time
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

_WHOLE_RUN_S = 1e9  # the time over which the speed is averaged


class Planned(Protocol):
    """A step to do."""

    def text(self) -> str: ...


class Watch:
    """Shows the progress of some steps; use it as a context."""

    def __init__(self, steps: int, *, line_every_s: float = 0.0):
        """`line_every_s`: the least time between two plain lines, in seconds."""
        self._line_every_s = line_every_s
        self._shown = time.monotonic()
        self._console = Console(stderr=True)
        self._has_bar = self._console.is_terminal and os.environ.get("CI") != "true"
        self._progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._has_bar,
            get_time=lambda: time.monotonic(),
            speed_estimate_period=_WHOLE_RUN_S,
        )
        self._task = self._progress.add_task("", total=steps)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def before(self, step: Planned) -> None:
        self._progress.update(self._task, description=step.text())

    def after(self, step: Planned, result: str) -> None:
        """Records that the announced step is done."""
        self._progress.advance(self._task)
        now = time.monotonic()
        if self._has_bar or now - self._shown < self._line_every_s:
            return
        self._shown = now
        task = self._progress.tasks[0]
        left = round(task.time_remaining or 0)
        self._console.print(
            f"{task.completed:.0f}/{task.total:.0f} {step.text()}: {result}, "
            f"{left // 60}:{left % 60:02d} left",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
