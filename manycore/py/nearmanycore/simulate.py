"""One run: a workload under a subject on so many processors of a machine, to one record.

The process has a fixed environment, because its size moves the stack, and addresses count. Equal
requests give equal records, but for `host_ns`.
"""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmanycore import machines, places
from nearmanycore.machines import Named
from nearmanycore.subjects import Subject
from nearmanycore.workloads import Workload

_SLACK_NS = 50  # how far a processor's hits may run ahead of the others
_REPORTED = 40  # lines and locks
# What the process reads as its /proc/self/status; the result has the simulated numbers.
_STATUS = """Name:\tsimulated
VmHWM:\t0 kB
VmRSS:\t0 kB
VmPTE:\t0 kB
Mems_allowed_list:\t{nodes}
"""


class RunError(RuntimeError):
    """A run that did not end well, in one line."""


@dataclass(frozen=True, slots=True)
class Request:
    workload: str
    keys: Workload
    subject: Subject
    machine: Named
    processors: int
    threads: int
    seed: int = 1
    scale: float = 1  # of the workload's operations
    more: tuple[str, ...] = ()  # arguments of the workload
    timeout_s: float = 900

    @property
    def arguments(self) -> list[str]:
        return self.keys.command(self.threads, self.scale, self.more)

    @property
    def name(self) -> str:
        return f"{self.workload}-{self.subject.name}-{self.machine.name}-{self.processors}"


def run(request: Request) -> dict[str, Any]:
    """The engine's result, with `request`, `workload` and the time that the program measured."""
    program = places.workload(request.keys.program)
    for needed in (program, places.engine()):
        if not needed.exists():
            raise RunError(f"{needed} is not built")
    with tempfile.TemporaryDirectory(prefix="near-manycore-") as name:
        folder = Path(name)
        done = execute(
            request.machine,
            request.processors,
            request.seed,
            folder,
            request.subject,
            [str(program), *request.arguments],
            request.timeout_s,
        )
        record = read(folder, done, request.name)
    measured = _last_json(done.stdout)
    if done.returncode != 0 or measured is None or not measured.get("verified", True):
        raise RunError(f"{request.name}: status {done.returncode}: {_said(done)}")
    return record | {
        "request": {
            "workload": request.workload,
            "allocator": request.subject.name,
            "machine": request.machine.name,
            "processors": request.processors,
            "threads": request.threads,
            "seed": request.seed,
            "arguments": request.arguments,
        },
        "workload": measured,
    }


def execute(
    machine: Named,
    processors: int,
    seed: int,
    folder: Path,
    subject: Subject,
    command: list[str],
    timeout_s: float,
) -> "subprocess.CompletedProcess[str]":
    """Runs a command simulated. Its result is FOLDER/result.json."""
    if processors > machine.machine.processors:
        raise RunError(f"{machine.name} has {machine.machine.processors} processors")
    topology = folder / "system"
    machines.write_topology(machine.machine, processors, topology)
    status = folder / "status"
    nodes = machines.ranges(list(range(machine.machine.nodes)))
    status.write_text(_STATUS.format(nodes=nodes), encoding="utf-8")
    description = folder / "run.txt"
    lines = [
        *machines.lines(machine),
        f"online {processors}",
        f"seed {seed}",
        f"slack {_SLACK_NS * 1000}",
        f"report_lines {_REPORTED}",
        "blocks 1",
        f"result {folder / 'result.json'}",
        f"pretended /sys/devices/system {topology}",
        f"pretended /proc/self/status {status}",
    ]
    description.write_text("\n".join(lines) + "\n", encoding="utf-8")
    preload = f"{places.engine()} {subject.library}"
    environment = [
        *subject.environment,
        f"NEAR_MANYCORE_RUN={description}",
        f"LD_PRELOAD={preload}",
    ]
    # `env` preloads into the program alone; setarch fixes the addresses.
    wrapped = ["setarch", "-R", "env", "-i", "LC_ALL=C", *environment, *command]
    try:
        return subprocess.run(
            wrapped, capture_output=True, text=True, check=False, timeout=timeout_s, cwd="/"
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{Path(command[0]).name} did not end within {timeout_s:g} s") from None
    except FileNotFoundError:
        raise RunError("setarch is missing (Debian's package util-linux)") from None


def read(folder: Path, done: "subprocess.CompletedProcess[str]", name: str) -> dict[str, Any]:
    """The result that the engine wrote."""
    try:
        record: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError(f"{name}: no result: {_said(done)}") from None
    return record


def _last_json(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1][:300] if lines else "it printed nothing"
