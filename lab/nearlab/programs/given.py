"""A program that a table describes: `[[program]]`, a command or a server with its client.

In its words `{folder}` is the folder of the run, `{inputs}` that of the inputs, `{port}` a free
port of the loopback, `{NAME}` a size of the table, `{sources}` lab/programs, `{python}`,
`{compiler}` and `{user}` those of the lab, and `$NAME` a variable of the environment (`$$` is a
dollar).
Invariant: a variable that is not set, or a command that is not there, makes the program missing,
with the reason.
Thread-safety: one thread.
"""

import hashlib
import os
import pwd
import re
import string
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from nearlab.measure import measure
from nearlab.measure.measure import Sample
from nearlab.peers import Allocator
from nearlab.programs.base import (
    SOURCES,
    TIMEOUT_S,
    Described,
    PrepareError,
    Program,
    Run,
    compiler,
    last_line,
    python,
    which,
)
from nearlab.programs.server import (
    NotStarted,
    ServerError,
    free_port,
    judged,
    run_client,
    wait_until,
)

_STARTS = 3  # attempts to start a server
_Words = Annotated[list[str], Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Server(_Table):
    """A server: it is measured, the client's time is the score, the client's output the answer."""

    before: list[str] = []  # a command, before each start
    start: _Words
    ready: _Words  # a command that succeeds once the server listens
    client: _Words
    stop: list[str] = []  # a command; empty: SIGTERM


class Given(_Table):
    """`[[program]]`: one row of the plan."""

    name: Annotated[str, Field(pattern=r"^[\w][\w.+-]*$")]
    title: str = ""
    argv: list[str] = []  # this, or a server
    server: Server | None = None
    inputs: list[_Words] = []  # commands that make inputs, run once in {inputs}
    sizes: dict[str, Annotated[list[int], Field(min_length=2, max_length=2)]] = {}  # quick, full
    needs: dict[str, str] = {}  # command -> Debian package, installed as root
    version: list[str] = []  # a command that prints it
    stdin: str = ""  # a file
    env: dict[str, str] = {}
    cwd: str = "{folder}"
    answer: str = "output"  # or "lines:PATTERN" of it, "file:PATH", "none": it has to succeed
    score: str = "wall"  # or "cpu", or a pattern whose group is a number in the output
    unit: Literal["seconds", "per second"] = "seconds"  # of the number in the output
    tree: bool = False  # counts the memory of its processes, and asks each for its malloc
    group: str = "program"
    rounds: Annotated[int | None, Field(ge=1)] = None
    tuned: bool = False

    def problem(self) -> tuple[str, str] | None:
        """A key and what is wrong with it."""
        if bool(self.argv) == (self.server is not None):
            return "argv", "is needed, or else a server"
        if not re.fullmatch("output|none|(file|lines):.+", self.answer):
            return "answer", "is output, none, lines:PATTERN or file:PATH"
        for key, text in (("answer", self.answer.removeprefix("lines:")), ("score", self.score)):
            try:
                pattern = re.compile(text)
            except re.error as error:
                return key, f"is no pattern: {error}"
        if self.score not in ("wall", "cpu") and pattern.groups != 1:
            return "score", "is wall, cpu, or a pattern with one group"
        return None

    def program(self) -> Program:
        return _GivenServer(self) if self.server else _GivenCommand(self)


class _Filled(Described, Program):
    """What both kinds of given programs do with their table."""

    def __init__(self, table: Given):
        super().__init__(table.model_dump())
        self.tree = table.tree
        self._table = table
        self._values: dict[str, object] = {}  # of the names in braces

    def prepare(self, folder: Path, quick: bool) -> None:
        """Makes the inputs once, and checks that the command is there."""
        self._values = {name: pair[not quick] for name, pair in self._table.sizes.items()}
        self._values |= {"inputs": folder, "sources": SOURCES}
        self._values |= {"python": python(), "compiler": compiler()}
        self._values |= {"user": pwd.getpwuid(os.geteuid()).pw_name}
        server = self._table.server
        argv = server.start if server else self._table.argv
        for words in (*self._table.inputs, argv):
            filled = self._filled(words, folder)
            if which(str(filled[0])) is None:
                raise PrepareError(f"{filled[0]} is not there")
            if words is not argv:
                done = subprocess.run(
                    filled, cwd=folder, capture_output=True, text=True, check=False
                )
                if done.returncode != 0:
                    raise PrepareError(f"{filled[0]} makes no inputs{last_line(done.stderr)}")

    def _filled(self, words: Sequence[str], folder: Path, port: int = 0) -> list[str]:
        return [self._word(word, folder, port) for word in words]

    def _word(self, word: str, folder: Path, port: int = 0) -> str:
        try:
            found = string.Template(word).substitute(os.environ)
        except KeyError as error:
            raise PrepareError(f"the variable {error.args[0]} is not set") from None
        except ValueError:
            raise PrepareError(f"a dollar in {word!r} names no variable") from None
        for name, value in {**self._values, "folder": folder, "port": port}.items():
            found = found.replace(f"{{{name}}}", str(value))
        return found

    def _environment(self, env: Mapping[str, str], folder: Path) -> dict[str, str]:
        return {key: self._word(value, folder) for key, value in self._table.env.items()} | {**env}

    def _answer(self, output: str, folder: Path) -> str:
        if self._table.answer == "none":
            return "none"
        if self._table.answer == "output":
            return output.strip() or "nothing"
        kind, _, pattern = self._table.answer.partition(":")
        if kind == "lines":
            return "\n".join(filter(re.compile(pattern).fullmatch, output.splitlines()))
        path = folder / self._word(self._table.answer.removeprefix("file:"), folder)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def _score(self, run: Run, output: str) -> Run:
        """The run with the number that the table wants as its time."""
        if self._table.score == "wall" or run.complaint or run.sample is None:
            return run
        if self._table.score == "cpu":
            return replace(run, wall_s=run.sample.cpu_s)
        found = re.search(self._table.score, output)
        try:
            number = float(found[1].replace(",", "")) if found else 0.0
        except ValueError:
            number = 0.0
        if number <= 0:
            return replace(run, complaint="the output has no such number")
        return replace(run, wall_s=number if self._table.unit == "seconds" else 1 / number)


class _GivenCommand(_Filled):
    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        with tempfile.TemporaryDirectory(prefix=f"near-{self.name}-") as name:
            folder = Path(name)
            sample = measure.run_child(
                self._filled(self._table.argv, folder),
                preload=allocator.library,
                env=self._environment(env, folder),
                cwd=self._word(self._table.cwd, folder),
                stdin=Path(self._word(self._table.stdin, folder)) if self._table.stdin else None,
                tree=self.tree,
                timeout=TIMEOUT_S,
            )
            return self._judged(sample, folder)

    def _judged(self, sample: Sample, folder: Path) -> Run:
        if complaint := sample.failure():
            return Run(sample, sample.wall_s, "", complaint + last_line(sample.stderr))
        try:
            answer = self._answer(sample.stdout, folder)
        except OSError as error:
            return Run(sample, sample.wall_s, "", f"no answer: {error.strerror}")
        return self._score(Run(sample, sample.wall_s, answer), sample.stdout)


class _GivenServer(_Filled):
    """Invariant: the server and its folder are gone after the run in every case; it listens below
    that folder or on its own port of the loopback. Memory and CPU time are the server's, the time
    is that of the clients' work. For the system's malloc, libc is preloaded, because a server may
    link another malloc. Another program may have taken its port, so it is started up to three
    times."""

    def run(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        for left in reversed(range(_STARTS)):
            try:
                return self._run_once(allocator, env)
            except ServerError as error:
                if left == 0 or not isinstance(error, NotStarted):
                    return Run(None, 0.0, "", str(error))
        raise AssertionError("a server is started at least once")

    def _run_once(self, allocator: Allocator, env: Mapping[str, str]) -> Run:
        words, said, port = self._table.server, "", free_port()
        assert words is not None, "it was made of one"
        # A socket's path has at most 107 bytes, so the folder is not below the build folder.
        with tempfile.TemporaryDirectory(prefix=f"near-{self.name}-") as name:
            folder = Path(name)

            def run_in(command: Sequence[str]) -> str:
                return run_client(self._filled(command, folder, port), folder)

            def is_ready() -> bool:
                try:
                    run_in(words.ready)
                except ServerError:
                    return False
                return True

            def load() -> tuple[str, float]:
                nonlocal said
                wait_until(is_ready, server)
                started = time.monotonic()
                said = run_in(words.client)
                ended = time.monotonic()
                answer = self._answer(said, folder)
                if words.stop:
                    run_in(words.stop)
                return answer, ended - started

            if words.before:
                run_in(words.before)
            command, *options = self._filled(words.start, folder, port)
            with measure.start_child(
                [which(command) or command, *options],
                preload=allocator.library or "libc.so.6",
                env=self._environment(env, folder),
                cwd=folder,
                timeout=TIMEOUT_S,
                tree=self.tree,
            ) as server:
                return self._score(judged(server, load), said)
