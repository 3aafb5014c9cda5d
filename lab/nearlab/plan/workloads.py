"""The workloads that are built, with the description and the options that their programs print.

Invariant: all knowledge about a workload comes from its program; there is no second list. If this
machine cannot build one, because a tool or a library's headers are missing, that is the reason.
"""

import functools
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from nearlab import places, programs
from nearlab.peers.crates import ProgramCrate

_OPTION = re.compile(r"^\s+(?:-\w,)?--([\w-]+)", re.MULTILINE)
_DESCRIPTION = re.compile(r'Workload workload\([^,]*,\s*((?:"[^"]*"\s*)+)')
_SECONDS = 20
_CRATES = {crate.name: crate for crate in (ProgramCrate("crossbeam_set", "crossbeam-epoch"),)}
# Workloads that need a library, with the Debian package of its headers.
_HEADERS = {"xenium_set": "libxenium-dev", "cds_set": "libcds-dev", "urcu_set": "liburcu-dev"}


class WorkloadError(ValueError):
    """A workload whose program does not answer; the message is one line."""


def names() -> list[str]:
    """The programs in the folder of the workloads, and those that cargo builds or could build."""
    return sorted({*_built(), *(name for name, one in _CRATES.items() if one.folder.is_dir())})


def known() -> list[str]:
    """The workloads that are built, and those whose source is here."""
    return sorted({*names(), *(() if places.INSTALLED else _HEADERS), *_sources()})


def is_known(name: str) -> bool:
    """Whether there is a workload or a real program of this name."""
    if name.startswith(programs.PREFIX):
        return name.removeprefix(programs.PREFIX) in programs.listed()
    return name in known()


def _sources() -> list[str]:
    """The workloads that the build would make: files with a main function."""
    files = places.workload_sources().glob("*.cc")
    return [file.stem for file in files if "int main(" in file.read_text(encoding="utf-8")]


def _built() -> list[str]:
    folder = places.workload_dir()
    found = folder.iterdir() if folder.is_dir() else ()
    return [path.name for path in found if path.is_file() and os.access(path, os.X_OK)]


def path(program: str) -> Path:
    """Returns the path of the program, built or not."""
    crate = _CRATES.get(program)
    return crate.library if crate else places.workload_dir() / program


def missing(program: str) -> str | None:
    """Returns why this machine lacks an optional workload; None if it has it."""
    if crate := _CRATES.get(program):
        return None if crate.find() else crate.hint()
    if program in _HEADERS and program not in _built():
        return f"not built: apt-get install {_HEADERS[program]}"
    return None


def provide(programs: Iterable[str]) -> dict[str, str]:
    """Builds the workloads that cargo builds. Returns why others are missing."""
    chosen = dict.fromkeys(programs)
    for program in chosen:
        if program in _CRATES:
            _CRATES[program].build()
    return {program: reason for program in chosen if (reason := missing(program))}


def _help(program: str) -> str:
    if crate := _CRATES.get(program):
        return crate.help()
    if reason := missing(program):
        raise WorkloadError(f"{program} is {reason}")
    if program not in names():
        if program in _sources():
            raise WorkloadError(f"{program} is not built: `./near lab run` builds it")
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
    """Returns the line that says what the workload does; from its source if it is not built."""
    if program in names():
        try:
            return (_help(program).strip().splitlines() or [""])[0]
        except WorkloadError as error:
            return str(error)
    source = places.workload_sources() / f"{program}.cc"
    found = _DESCRIPTION.search(source.read_text(encoding="utf-8")) if source.is_file() else None
    return "".join(re.findall(r'"([^"]*)"', found[1])) if found else "not built"
