"""How far the demo is: a bar with the time left on a terminal, else a plain line per run.

Invariant: what is written goes to stderr, so that stdout holds the result alone.
Touched by: demo.py. The time left is the sum over the steps to come of what the same program took before.
"""

import os
import statistics
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from .demo_run import Record, Step

_GUESS_S = 3.0  # for a run before any was seen


class Watch:
    """Follows the steps; use it as a context."""

    def __init__(self, steps: Sequence[Step]):
        self._steps = list(steps)
        self._total = len(self._steps)
        self._took: dict[str, list[float]] = {}
        self._started = time.monotonic()
        console = Console(stderr=True)
        self._bar = None
        if console.is_terminal and os.environ.get("CI") != "true":
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
            self._bar = Progress(*columns, console=console, transient=True)
        self._console = console
        self._task = self._bar.add_task("", total=1.0, left="") if self._bar else None

    def __enter__(self) -> "Watch":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        (self._bar.console if self._bar else self._console).print(text, highlight=False, markup=False, soft_wrap=True)

    def before(self, step: Step) -> None:
        self._started = time.monotonic()
        if self._bar:
            description = f"{_round(step)}: {step.program.title}, {step.allocator.name}"
            self._bar.update(self._task, description=description, left=f"{_clock(self.left_s())} left")

    def after(self, record: Record) -> None:
        """Effect: the step is done; so are all others of its program when it failed."""
        step = record.step
        self._took.setdefault(step.program.name, []).append(time.monotonic() - self._started)
        self._steps = [
            other
            for other in self._steps
            if other is not step and not (record.problem and other.program is step.program)
        ]
        if self._bar:
            self._bar.update(self._task, completed=1 - len(self._steps) / self._total)
        else:
            self.say(
                f"demo: {self._total - len(self._steps)}/{self._total} {_round(step)}: {step.program.name}, "
                f"{step.allocator.name}: {record.problem or f'{record.run.wall_s:.2f} s'}; "
                f"{_clock(self.left_s())} left"
            )

    def left_s(self) -> float:
        """Effect: none. What the steps to come will take, in seconds."""
        medians = {name: statistics.median(took) for name, took in self._took.items()}
        unknown = statistics.fmean(medians.values()) if medians else _GUESS_S
        return sum(medians.get(step.program.name, unknown) for step in self._steps)


def _round(step: Step) -> str:
    return f"round {step.round}" if step.round else "warm-up"


def _clock(seconds: float) -> str:
    return f"{int(seconds + 0.5) // 60}:{int(seconds + 0.5) % 60:02d}"
