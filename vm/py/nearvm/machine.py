"""Boots a guest with a topology, lets it run its steps, and returns its output.

Invariant: whatever a guest does, QEMU has ended when `boot` returns or raises: one that hangs is
killed, and the error has the end of its console. Anything missing here is an error that names it.
About one guest in a hundred hangs before its first step, in the emulator or the kernel, with an
empty console: none of our code ran, so it is booted again, and the output says how often.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nearvm import folders, guest
from nearvm.guest import Step
from nearvm.topology import Topology

HugePages = Literal["always", "madvise", "never"]
TIMEOUT_S = 180.0  # for the steps
BOOT_S = 60.0  # until the first step; it usually takes seconds
_BOOTS = 3  # at most
_POLL_S = 0.1
_QEMU = "qemu-system-x86_64"
_SHELLS = ("bin/busybox", "usr/bin/busybox")  # its path in Debian's package depends on the age
_TAIL = 1200  # characters of the console that an error has
# A processor that QEMU emulates well and that has every feature the allocators need.
_PROCESSOR = "Nehalem"
_KERNEL = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off nowatchdog tsc=reliable "
    "numa_balancing=disable"
)


class MachineError(RuntimeError):
    """There is no machine, or its guest did not end normally; the text says why."""


class _NeverBegan(MachineError):
    """The guest was killed before its first step."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A library that QEMU loads, and its arguments."""

    file: Path
    arguments: Mapping[str, str] = field(default_factory=dict)

    def words(self) -> list[str]:
        values = [f"{name}={value}" for name, value in self.arguments.items()]
        wrong = [part for part in (str(self.file), *values) if "," in part]
        if wrong:
            raise MachineError(f"QEMU takes a comma for the end of an argument: {wrong[0]}")
        return ["-plugin", ",".join([str(self.file), *values])]


@dataclass(frozen=True, slots=True)
class Machine:
    """The parts that every guest is made of."""

    qemu: Path
    kernel: Path
    busybox: Path


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a guest on its serial lines: of its steps, and the end of its console."""

    said: str
    console: str
    boots: int = 1  # only the last one reached the first step


def find() -> Machine:
    """The machine's parts, or a MachineError that names what is missing."""
    qemu = shutil.which(_QEMU)
    kernels = sorted(folders.files().glob("kernel/boot/vmlinuz-*"), key=_version)
    folder = folders.files() / "busybox"
    shells = [path for part in _SHELLS if (path := folder / part).is_file()]
    parts = ((qemu, _QEMU), (kernels, "the guest's kernel"), (shells, "busybox"))
    if missing := [name for found, name in parts if not found]:
        raise MachineError(f"missing: {', '.join(missing)}; `./near vm run` installs what it needs")
    return Machine(Path(qemu or ""), kernels[-1], shells[0])


def _version(kernel: Path) -> list[tuple[int, str]]:
    """Numbers as numbers: 6.1.0-42 comes after 6.1.0-9."""
    parts = re.findall(r"\d+|\D+", kernel.name)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def qemu_version(machine: Machine) -> str:
    """The version that QEMU prints."""
    try:
        asked = subprocess.run(
            [machine.qemu, "--version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return asked.stdout.partition("\n")[0].removeprefix("QEMU emulator version ") or "unknown"


def boot(
    machine: Machine,
    topology: Topology,
    steps: Sequence[Step],
    *,
    plugin: Plugin | None = None,
    files: Mapping[str, Path] | None = None,
    huge_pages: HugePages = "madvise",
    timeout_s: float = TIMEOUT_S,
    boot_s: float = BOOT_S,
) -> Output:
    """Runs the guest to its end. `files` are more files for it, by path."""
    with tempfile.TemporaryDirectory(prefix="near-vm-") as name:
        folder = Path(name)
        initramfs = folder / "initramfs"
        initramfs.write_bytes(guest.archive(steps, machine.busybox, files))
        words = [*_command(machine, folder, huge_pages, topology), *topology.qemu()]
        words += plugin.words() if plugin else []
        boots = 1
        while True:
            try:
                _run(words, folder, boot_s, timeout_s)
            except _NeverBegan:
                if boots == _BOOTS:
                    raise
                boots += 1
            else:
                break
        said, console = _read(folder / "said"), _read(folder / "console").strip()[-_TAIL:]
        return Output(said, console, boots)


def _command(
    machine: Machine, folder: Path, huge_pages: HugePages, topology: Topology
) -> list[str]:
    append = [_KERNEL, f"transparent_hugepage={huge_pages}", *topology.kernel()]
    return [
        str(machine.qemu),
        *("-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", _PROCESSOR),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-serial", f"file:{folder / 'console'}", "-serial", f"file:{folder / 'said'}"),
        *("-kernel", str(machine.kernel), "-initrd", str(folder / "initramfs")),
        *("-append", " ".join(append)),
    ]


def _run(words: Sequence[str], folder: Path, boot_s: float, timeout_s: float) -> None:
    """Returns when QEMU has ended by itself; raises if it reported an error."""
    for line in ("said", "console"):
        (folder / line).unlink(missing_ok=True)
    with (folder / "errors").open("wb") as errors:
        try:
            running = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )
        except OSError as error:
            raise MachineError(f"{words[0]}: {error.strerror}") from None
        try:
            _await_begin(running, folder, boot_s)
            status = running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise MachineError(
                f"the guest was killed after {timeout_s:g} s{_ended(folder)}"
            ) from None
        finally:
            running.kill()
            running.wait()
    if status != 0:
        complaint = _read(folder / "errors").strip()[-_TAIL:] or "no message"
        raise MachineError(f"QEMU ended with {status}: {complaint}{_ended(folder)}")


def _await_begin(running: subprocess.Popen[bytes], folder: Path, boot_s: float) -> None:
    """Returns when the first step has begun, or QEMU has ended."""
    deadline = time.monotonic() + boot_s
    while running.poll() is None and not _read(folder / "said"):
        if time.monotonic() > deadline:
            raise _NeverBegan(
                f"{_BOOTS} guests were killed after {boot_s:g} s without a step{_ended(folder)}"
            )
        time.sleep(_POLL_S)


def _ended(folder: Path) -> str:
    """The end of the console, for an error."""
    tail = _read(folder / "console").strip()[-_TAIL:]
    return f"; its console ended:\n{tail}" if tail else "; its console is empty"


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").replace("\r", "")
    except FileNotFoundError:
        return ""
