"""Runs a program and says what it took: time, memory with page tables, faults, which malloc.

`run_child` runs to the end; `start_child` gives a handle for servers: `.pid`, `.terminate()`,
`.wait()`. The measuring itself is done by the small program `launch` (lab/bench/launch.c says why):
mean memory is that of time, from samples each fiftieth of the run so far, 4 to 50 ms apart.
Invariant: whatever the child leaves running is ended before its Sample is returned.
"""

import contextlib
import contextvars
import os
import signal as signals
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Self, TypedDict, Unpack

from nearlab import places
from nearlab.measure import proof

# Variables that an allocator or a preload of the lab reads; the caller's values would distort runs.
_SETTINGS = (
    *("LD_PRELOAD", "LIMIT_MIB", "LAB_COUNT_FILE", "NEAR_TRACE", "GLIBC_TUNABLES", "MALLOC_"),
    *("NEARMALLOC_", "MIMALLOC_", "TCMALLOC_", "TBB_MALLOC_", "_RJEM_MALLOC_", "JE_MALLOC_"),
    "NEARBIND_",
)


class MeasureError(RuntimeError):
    """The measurement itself could not be done; a child that fails is a result, not an error."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process as it was at its exit; with `tree`, there is one for every forked process."""

    pid: int
    program: str
    hwm_kib: int
    rss_kib: int
    pte_kib: int
    served_by: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One run. With `tree`, memory is the largest sum that was seen at one time."""

    argv: tuple[str, ...]
    wall_s: float
    user_s: float
    sys_s: float
    peak_rss_kib: int
    mean_rss_kib: int
    peak_pte_kib: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    exit_code: int  # -1 when ended by a signal
    signal: int  # 0 when it exited
    timed_out: bool
    stdout: str
    stderr: str
    served_by: (
        str  # "glibc", "nearmalloc", ...; "unknown" when the process could not be read at its exit
    )
    samples: int
    left_running: int  # processes that the child left running; the launcher ended them
    processes: tuple[Process, ...]
    sampler_cpu_s: float = 0.0  # the launcher's own seconds
    waited_s: float | None = None  # the first thread's wait for a processor, if the kernel counts
    # Memory calls of the whole tree by name, if requested; or the reason why they were not counted.
    syscalls: dict[str, int] | None = None
    syscalls_refused: str | None = None

    @property
    def peak_total_kib(self) -> int:
        """Peak RSS plus peak page tables: the memory that the machine needed for the run."""
        return self.peak_rss_kib + self.peak_pte_kib

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.sys_s

    @property
    def context_switches(self) -> int:
        return self.voluntary_switches + self.involuntary_switches

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.signal == 0 and not self.timed_out

    def failure(self) -> str | None:
        """Why the run does not count, in a few words; None when it does."""
        if self.ok:
            return None
        if self.timed_out:
            return "timed out"
        if self.signal:
            return f"ended by {signals.Signals(self.signal).name}"
        return f"exit code {self.exit_code}"

    def to_json(self) -> dict[str, Any]:
        """Everything but the output of the child, for a raw result line."""
        record = asdict(self)
        del record["stdout"], record["stderr"]
        if self.syscalls is None:
            del record["syscalls"]
        if self.syscalls_refused is None:
            del record["syscalls_refused"]
        return record | {"peak_total_kib": self.peak_total_kib, "failure": self.failure()}


@dataclass(frozen=True, slots=True)
class _Asked:
    """The requests for all children, besides those that each call makes."""

    count_calls: bool = False
    before: tuple[Path, ...] = ()  # preloaded before the allocator
    env: Mapping[str, str] = field(default_factory=dict)


_NOTHING_ASKED = _Asked()
_asked: contextvars.ContextVar[_Asked] = contextvars.ContextVar("asked", default=_NOTHING_ASKED)


@contextlib.contextmanager
def children(
    *,
    count_calls: bool = False,
    before: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Sets, for every child started within this context: counting of memory calls, libraries to
    preload before the allocator, variables to add to the environment."""
    token = _asked.set(_Asked(count_calls, tuple(before), env or {}))
    try:
        yield
    finally:
        _asked.reset(token)


def launcher() -> Path:
    path = places.bench_dir() / "launch"
    if not path.is_file():
        raise MeasureError(f"{path} is missing: build it with `./near build`")
    return path


def child_environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """This process's environment without preloads and settings of allocators, plus `env`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    return kept | dict(env or {})


class Options(TypedDict, total=False):
    """How a child runs."""

    preload: str | Path | Sequence[str | Path] | None  # libraries, for the child alone
    env: Mapping[str, str] | None  # added to the environment
    cwd: str | Path | None
    timeout: float | None
    stdin: str | bytes | Path | None  # text, bytes or a file to read; by default nothing
    tree: bool  # sums memory over all descendants and reports each process at its exit
    count_calls: bool  # counts the memory calls of the tree, which costs time


class Child:
    """A program under measurement. Call `wait` exactly once; `with` ends a child that still runs.
    """

    def __init__(self, argv: Sequence[str | Path], **options: Unpack[Options]):
        self.argv = tuple(str(word) for word in argv)
        read_end, write_end = os.pipe()
        command = [str(launcher()), "--report", str(write_end)]
        if options.get("tree"):
            command.append("--tree")
        asked = _asked.get()
        if options.get("count_calls") or asked.count_calls:
            command.append("--count-calls")
        preload = options.get("preload")
        libraries = [preload] if isinstance(preload, (str, Path)) else list(preload or ())
        if libraries := [*asked.before, *libraries]:
            command += ["--preload", ":".join(str(library) for library in libraries)]
        if (timeout := options.get("timeout")) is not None:
            command += ["--timeout", str(timeout)]
        self._stdin = _stdin_file(options.get("stdin"))
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._launcher = subprocess.Popen(
            [*command, "--", *self.argv],
            stdin=self._stdin,
            stdout=self._out,
            stderr=self._err,
            env=child_environment({**(options.get("env") or {}), **asked.env}),
            cwd=options.get("cwd"),
            pass_fds=[write_end],
            start_new_session=True,
        )
        os.close(write_end)
        self._report = os.fdopen(read_end, "r", errors="replace")
        first = self._report.readline().split()
        if first[:1] != ["pid"]:
            raise MeasureError(f"{self.argv[0]}: launcher failed: {self._text(self._err).strip()}")
        self.pid = int(first[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def terminate(self) -> None:
        """SIGTERM to the child; then `wait` for its Sample."""
        self._launcher.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """Ends the child at once, without a result. Does nothing after `wait`."""
        if self._launcher.poll() is None:
            self._launcher.kill()  # the kernel then ends the traced child too
            self._launcher.wait()

    def running(self) -> bool:
        return self._launcher.poll() is None

    def wait(self) -> Sample:
        try:
            report = self._report.read()
            self._launcher.wait()
        except BaseException:
            self.kill()
            raise
        return _parse(self.argv, self.pid, report, self._text(self._out), self._text(self._err))

    @staticmethod
    def _text(file: IO[bytes]) -> str:
        file.seek(0)
        return file.read().decode(errors="replace")


def start_child(argv: Sequence[str | Path], **options: Unpack[Options]) -> Child:
    """Starts a program to be measured."""
    return Child(argv, **options)


def run_child(argv: Sequence[str | Path], **options: Unpack[Options]) -> Sample:
    """Runs a program to its end and measures it."""
    return Child(argv, **options).wait()


def _stdin_file(stdin: str | bytes | Path | None) -> int | IO[bytes]:
    if stdin is None:
        return subprocess.DEVNULL
    if isinstance(stdin, Path):
        return stdin.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    file.write(stdin.encode() if isinstance(stdin, str) else stdin)
    file.seek(0)
    return file


@dataclass(slots=True)
class _Report:
    """The launcher's report as it is read, line by line."""

    program: str
    memory: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    programs: dict[int, str] = field(default_factory=dict)
    objects: dict[int, list[str]] = field(default_factory=dict)
    usage: list[str] = field(default_factory=list)
    calls: dict[str, int] | None = None
    refused: str | None = None
    left: int = 0
    waited_ns: int | None = None

    def add(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        if kind == "process":
            pid, hwm, rss, pte = map(int, rest.split())
            self.memory[pid] = hwm, rss, pte
        elif kind in ("program", "object"):
            pid_text, _, path = rest.partition(" ")
            if kind == "program":
                self.programs[int(pid_text)] = path
            self.objects.setdefault(int(pid_text), []).append(path)
        elif kind == "waited":
            self.waited_ns = int(rest)
        elif kind == "left":
            self.left = int(rest)
        elif kind == "calls" and rest.startswith("refused "):
            self.refused = rest.removeprefix("refused ")
        elif kind == "calls":
            pairs = (word.split("=") for word in rest.split())
            self.calls = {name: int(count) for name, count in pairs}
        elif kind == "usage":
            self.usage = rest.split()
        elif kind == "error":
            raise MeasureError(f"{self.program}: cannot be started: {rest}")

    def processes(self) -> tuple[Process, ...]:
        return tuple(
            Process(
                pid,
                self.programs.get(pid, ""),
                *values,
                proof.served_by(self.objects.get(pid, [])),
            )
            for pid, values in self.memory.items()
        )


def _parse(argv: tuple[str, ...], root_pid: int, text: str, stdout: str, stderr: str) -> Sample:
    report = _Report(argv[0])
    for line in text.splitlines():
        report.add(line)
    if not report.usage:
        raise MeasureError(
            f"{argv[0]}: the launcher ended without a report: {stderr.strip()[-300:]}"
        )
    wall, user, system = map(float, report.usage[:3])
    max_rss, minor, major, voluntary, involuntary, hwm, pte, mean, samples = (
        int(x) for x in report.usage[3:12]
    )
    exit_code, signal, timed_out = (int(x) for x in report.usage[12:15])
    processes = report.processes()
    root = next((process for process in processes if process.pid == root_pid), None)
    return Sample(
        argv=argv,
        wall_s=wall,
        user_s=user,
        sys_s=system,
        peak_rss_kib=hwm or max_rss,
        mean_rss_kib=mean,
        peak_pte_kib=pte,
        minor_faults=minor,
        major_faults=major,
        voluntary_switches=voluntary,
        involuntary_switches=involuntary,
        exit_code=exit_code,
        signal=signal,
        timed_out=bool(timed_out),
        stdout=stdout,
        stderr=stderr,
        served_by=root.served_by if root else "unknown",
        samples=samples,
        left_running=report.left,
        processes=processes,
        sampler_cpu_s=float(report.usage[15]),
        waited_s=None if report.waited_ns is None else report.waited_ns * 1e-9,
        syscalls=report.calls,
        syscalls_refused=report.refused,
    )
