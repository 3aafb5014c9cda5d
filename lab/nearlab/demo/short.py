"""The programs of the short demo, in interleaved rounds under glibc and under nearmalloc.

Invariant: every program first runs under glibc, uncounted: that run warms up and gives the answer
that the others must give. A program that failed is not run again. Rounds end early when the next
one would take too long, but never before the third.
"""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearlab.demo.table import FEWEST_ROUNDS, MEASURES, Comparison, Row
from nearlab.demo.tasks import Done, Task
from nearlab.peers import Allocator
from nearlab.programs.base import PrepareError
from nearlab.runs.interleave import Step, schedule, touch_memory
from nearlab.runs.progress import Watch

ROUNDS = 5
SECONDS = 100  # that all rounds may take on an idle machine of two processors
_LINE_EVERY_S = 15.0


@dataclass(slots=True)
class Rounds:
    """The runs of some tasks; allocators are glibc and nearmalloc, in this order."""

    tasks: Sequence[Task]
    allocators: tuple[Allocator, Allocator]
    folder: Path
    answers: dict[str, str] = field(default_factory=dict)  # by task, as are the next two
    failures: dict[str, str] = field(default_factory=dict)
    done: dict[str, dict[str, list[Done]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )  # by task and allocator

    def run(
        self, rounds: int | None, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Runs so many rounds; None: as many as fit into the seconds, up to ROUNDS."""
        most = rounds or ROUNDS
        began = clock()
        with Watch(len(self.tasks) * (1 + 2 * most), line_every_s=_LINE_EVERY_S) as watch:
            for step in schedule(self.tasks, self.allocators[:1], [0]):
                self._take(step, watch)
            for number in range(1, most + 1):
                round_began = clock()
                for step in schedule(self.tasks, self.allocators, [number]):
                    self._take(step, watch)
                now = clock()
                enough = rounds is None and number >= FEWEST_ROUNDS
                if enough and now - began + (now - round_began) > seconds:
                    break

    def _take(self, step: Step[Task], watch: Watch) -> None:
        task = step.case
        watch.before(step)
        if task.name not in self.failures:
            problem = self._run(step)
            if problem:
                self.failures[task.name] = f"{step.allocator.name}: {problem}"
        watch.after(step, "failed" if task.name in self.failures else "done")

    def _run(self, step: Step[Task]) -> str | None:
        task = step.case
        folder = self.folder / task.name
        if step.round == 0:
            folder.mkdir()
            try:
                task.prepare(folder)
            except (PrepareError, OSError) as error:
                return str(error)
        touch_memory()
        done = task.run(step.allocator, folder)
        if step.round > 0:
            self.done[task.name][step.allocator.name].append(done)
        if done.failure is None and self.answers.setdefault(task.name, done.answer) != done.answer:
            return "another answer than under glibc"
        return done.failure

    def rows(self) -> list[Row]:
        return [self._row(task) for task in self.tasks]

    def _row(self, task: Task) -> Row:
        if failure := self.failures.get(task.name):
            return Row(task.name, task.title, (), failure)
        before, after = (
            [one.metrics() for one in self.done[task.name][allocator.name]]
            for allocator in self.allocators
        )
        comparisons = (
            Comparison(
                tuple(one[measure.metric] for one in before),
                tuple(one[measure.metric] for one in after),
            )
            for measure in MEASURES
        )
        return Row(task.name, task.title, tuple(comparisons))


def rows_of(
    tasks: Sequence[Task],
    allocators: tuple[Allocator, Allocator],
    rounds: int | None,
    seconds: float = SECONDS,
) -> list[Row]:
    """Runs the tasks; returns a row for each."""
    with tempfile.TemporaryDirectory(prefix="near-demo-") as folder:
        runs = Rounds(tasks, allocators, Path(folder))
        runs.run(rounds, seconds)
        return runs.rows()
