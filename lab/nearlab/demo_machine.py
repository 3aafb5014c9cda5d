"""Where a result was measured: machine, kernel, versions, date.

Invariant: nothing here fails; what cannot be found out is an empty text. No host name and no path of a user is recorded.
Touched by: demo.py; reads /proc and /sys, asks programs for their version.
"""

import datetime
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .programs.base import Program


def describe(programs: Iterable[Program], library: Path | None) -> dict:
    """A record for the head of the raw results."""
    return {
        "kind": "environment",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cpus": os.cpu_count(),
        "memory_kib": int(_field("/proc/meminfo", "MemTotal").split()[0] or 0),
        "kernel": platform.release(),
        "system": _field("/etc/os-release", "PRETTY_NAME").strip('"'),
        "glibc": platform.libc_ver()[1],
        "transparent_huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "library_sha256": hashlib.sha256(library.read_bytes()).hexdigest() if library else "",
        "versions": {program.name: version_of(program) for program in programs},
    }


def headline(environment: dict) -> str:
    """The machine in one line."""
    memory = environment["memory_kib"] / 2**20
    return (
        f"{environment['cpu']}, {environment['cpus']} CPUs, {memory:.0f} GiB; {environment['system']}, "
        f"Linux {environment['kernel']}, glibc {environment['glibc']}, "
        f"huge pages: {environment['transparent_huge_pages']}"
    )


def version_of(program: Program) -> str:
    """The first line of what the program says of itself."""
    try:
        done = subprocess.run(program.version, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.splitlines() or [""])[0]


def _field(path: str, name: str) -> str:
    """The value after `name` and `:` or `=`; of several, the first. `0` when there is none."""
    try:
        text = Path(path).read_text()
    except OSError:
        text = ""
    found = re.search(rf"^{name}\s*[:=]\s*(.*)$", text, re.MULTILINE)
    return found.group(1) if found else "0"


def _chosen(path: str) -> str:
    """The word in brackets."""
    try:
        found = re.search(r"\[(\w+)\]", Path(path).read_text())
    except OSError:
        found = None
    return found.group(1) if found else ""
