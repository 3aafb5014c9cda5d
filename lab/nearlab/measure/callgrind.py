"""Counts the instructions of a program under callgrind, with the allocator preloaded.

The count covers the whole program with all its threads, from its start to its exit. To count the
work alone, the caller passes `idle`, the same program without work, and gets the difference.
Processes started by the program are not counted. Callgrind runs one thread at a time, so spinning
and contention differ from those on real processors. Invariant: a number comes only from a program
that succeeded and executed code of the preloaded library; every other case has a failure text.
"""

import contextlib
import os
import signal as signals
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearlab.measure import measure

_TIMEOUT_S = 300
Running = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Count:
    """Number of instructions, or the reason why there is none."""

    instructions: int | None
    failure: str | None = None


def count(
    argv: Sequence[str | Path],
    library: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT_S,
    *,
    idle: Sequence[str | Path] | None = None,
    options: Sequence[str] = (),
) -> Count:
    """Counts the instructions of one run of `argv`, minus those of a given `idle`.

    `options` are callgrind's: --toggle-collect=main counts the main thread's calls from `main`.
    """

    def read(counts: Path, running: Running) -> Count:
        try:
            status = running.wait(timeout)
        except subprocess.TimeoutExpired:
            return Count(None, f"timed out under callgrind after {timeout:g} s")
        return Count(None, "") if status else _read(counts, library)

    whole = run(argv, library, env, read, options)
    if whole.instructions is None or idle is None:
        return whole
    start_up = run(idle, library, env, read, options)
    if start_up.instructions is None:
        return Count(None, f"without work: {start_up.failure}")
    return Count(whole.instructions - start_up.instructions)


def run(
    argv: Sequence[str | Path],
    library: str | Path | None,
    env: Mapping[str, str] | None,
    read: Callable[[Path, Running], Count],
    options: Sequence[str] = (),
) -> Count:
    """Starts `argv` under callgrind, and ends it when `read` has what it wants; `read` gets the
    name of its file of counts, and the process."""
    preload = {"LD_PRELOAD": str(library)} if library else {}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        # A forked child also runs under callgrind; %p gives each process its own output file.
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p", *options, "--"]
        try:
            process = subprocess.Popen(
                [*tool, *(str(word) for word in argv)],
                env=measure.child_environment({**(env or {}), **preload}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Count(None, "valgrind is not installed")
        try:
            found = read(Path(folder) / str(process.pid), process)
            status = process.poll()
        finally:
            _end(process)
        if status:
            log.seek(0)
            return Count(None, _ending(status, log.read().decode(errors="replace")))
        return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends all processes that the program left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signals.SIGKILL)
    process.wait()


def _ending(status: int, log: str) -> str:
    """How the program ended, with the reason that it or valgrind printed last."""
    if status < 0:
        how = f"ended by {signals.Signals(-status).name} under callgrind"
    else:
        how = f"exit code {status} under callgrind"
    said = [line.strip() for line in log.splitlines()]
    own = [line for line in said if line and not line.startswith("==")]
    return f"{how}: {own[-1][:120]}" if own else how


def _read(counts: Path, library: str | Path | None) -> Count:
    """Reads the total. Lines `ob=` and `cob=` name the files whose code was executed."""
    total, executed = None, set()
    try:
        with counts.open(errors="replace") as lines:
            for line in lines:
                key, _, rest = line.partition("=")
                if key in ("ob", "cob"):
                    executed.add(rest.partition(" ")[2].strip())  # "(number) path", then "(number)"
                elif line.startswith("summary:"):
                    total = int(line.split()[1])
    except FileNotFoundError:
        pass
    if total is None:
        return Count(None, "callgrind gave no summary")
    if library and os.path.realpath(library) not in map(os.path.realpath, executed - {""}):
        return Count(None, f"{Path(library).name} did not serve it")
    return Count(total)
