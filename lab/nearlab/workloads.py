"""The workloads that are built, and what they say of themselves: a description, their options.

Invariant: what is known of a workload is what its program prints; there is no second list.
"""

import functools
import os
import re
import subprocess
from pathlib import Path

from . import places

_OPTION = re.compile(r"^\s+(?:-\w,)?--([\w-]+)", re.MULTILINE)
_SECONDS = 20


class WorkloadError(ValueError):
    """A workload that cannot be asked, in one line."""


def names() -> list[str]:
    """The programs in the folder of the workloads."""
    folder = places.workload_dir()
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path.name for path in found if path.is_file() and os.access(path, os.X_OK))


def _help(program: str) -> str:
    if program not in names():
        if (places.ROOT / "lab" / "workloads" / f"{program}.cc").is_file():
            raise WorkloadError(f"{program} is not built: `./near lab` builds it")
        raise WorkloadError(f"there is no workload {program!r}; there are: {', '.join(names())}")
    return _ask(places.workload_dir() / program)


@functools.cache
def _ask(path: Path) -> str:
    try:
        asked = subprocess.run(
            [path, "--help"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WorkloadError(f"{path.name} does not tell its options: {error}") from None
    return asked.stdout


def options(program: str) -> frozenset[str]:
    """The long options of a workload, without their dashes."""
    return frozenset(_OPTION.findall(_help(program))) - {"help"}


def description(program: str) -> str:
    """The line that says what it does."""
    return (_help(program).strip().splitlines() or [""])[0]
