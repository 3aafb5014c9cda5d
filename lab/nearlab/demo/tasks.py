"""The programs of the short demo: present wherever nearmalloc is built, a second or two a run.

Invariant: an answer depends on the task alone, so it is equal under every allocator. A task whose
command is missing is left out. Nothing is installed.
"""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearlab.measure import measure
from nearlab.measure.measure import Sample
from nearlab.peers import Allocator
from nearlab.programs.base import SOURCES, PrepareError, compiler, last_line, python, which
from nearlab.runs.served import wrong_allocator

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """One program with fixed work. A word `{folder}` is the folder of its inputs and outputs."""

    name: str
    title: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...] = ()  # the command that makes them
    inputs_file: str = ""  # receives what that command prints
    environment: tuple[tuple[str, str], ...] = ()
    answer_file: str = ""  # holds the answer, if the program does not print it
    tree: bool = False  # counts the memory of its processes

    def missing(self) -> str | None:
        """The first command that is not installed."""
        words = [argv[0] for argv in (self.argv, self.inputs) if argv]
        return next((word for word in words if "{" not in word and not which(word)), None)

    def prepare(self, folder: Path) -> None:
        """Makes the inputs. Raises PrepareError."""
        if not self.inputs:
            return
        done = subprocess.run(
            _filled(self.inputs, folder), cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PrepareError(f"{self.inputs[0]} makes no inputs{last_line(done.stderr)}")
        if self.inputs_file:
            (folder / self.inputs_file).write_text(done.stdout, encoding="utf-8")

    def run(self, allocator: Allocator, folder: Path) -> "Done":
        """One run; a program that fails is a result."""
        try:
            sample = measure.run_child(
                _filled(self.argv, folder),
                preload=allocator.library,
                env=dict(allocator.environment + self.environment),
                cwd=folder,
                tree=self.tree,
                timeout=_TIMEOUT_S,
            )
        except (measure.MeasureError, OSError) as error:
            return Done(None, "", str(error))
        if failure := sample.failure():
            return Done(sample, "", failure + last_line(sample.stderr))
        answer = sample.stdout.strip()
        if self.answer_file:
            try:
                answer = hashlib.sha256((folder / self.answer_file).read_bytes()).hexdigest()
            except OSError as error:
                return Done(sample, "", f"no answer: {error.strerror}")
        failure = None if answer else "no answer"
        return Done(sample, answer, failure or wrong_allocator(sample, allocator))


@dataclass(frozen=True, slots=True)
class Done:
    """One run: its measurements, its answer; `failure` says why it does not count."""

    sample: Sample | None
    answer: str
    failure: str | None

    def metrics(self) -> Mapping[str, float]:
        """The numbers of a run that counts."""
        if self.sample is None or self.failure:
            return {}
        return {"seconds": self.sample.wall_s, "memory_kib": float(self.sample.peak_total_kib)}


def _filled(words: Sequence[str], folder: Path) -> list[str]:
    return [word.replace("{folder}", str(folder)) for word in words]


_PYTHON = (("PYTHONHASHSEED", "0"), ("PYTHONDONTWRITEBYTECODE", "1"))
_DOCUMENTS = (python(), "-s", str(SOURCES / "documents.py"), "4", "400", "3")

TASKS = (
    Task(
        "python",
        "JSON, 4 threads",
        _DOCUMENTS,
        environment=(*_PYTHON, ("PYTHONMALLOC", "default")),
    ),
    Task(
        "python-malloc",
        "the same, no pools",
        _DOCUMENTS,
        environment=(*_PYTHON, ("PYTHONMALLOC", "malloc")),
    ),
    Task(
        "sqlite",
        "in-memory joins",
        (python(), "-s", str(SOURCES / "orders.py"), "100000"),
        environment=_PYTHON,
    ),
    Task("perl", "strings, hashes", ("perl", str(SOURCES / "words.pl"), "200")),
    Task(
        "gcc",
        "C++ templates",
        (compiler(), "-std=c++20", "-O1", "-S", "{folder}/templates.cc", "-o", "templates.s"),
        inputs=(python(), str(SOURCES / "templates.py"), "1"),
        inputs_file="templates.cc",
        answer_file="templates.s",
        tree=True,
    ),
    Task(
        "kvserver",
        "8-thread server",
        ("{folder}/kvserver", "4", "4", "200000"),
        inputs=(
            *(compiler(), "-std=c++20", "-O2", "-pthread"),
            *(str(SOURCES / "kvserver.cc"), "-o", "kvserver"),
        ),
    ),
)
