"""Results that are kept: a run whose libraries, program, machine and arguments are those of a kept
result is not run again.

Invariant: a kept result belongs to its name, which has a hash of all that the run depends on. The
hash takes what is loaded of a library, so other paths in its debugging information change nothing.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from nearmanycore import cause, machines, places, simulate
from nearmanycore.simulate import Request

_naming = Lock()  # runs end at the same time, and symbols are read from shared files
_UNUSED = (".note.gnu.build-id", ".gnu_debuglink")


@cache
def _loaded(path: Path, changed_ns: int) -> str:
    """A hash of the sections that are loaded, of the file as of this time."""
    del changed_ns
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            loaded = section["sh_flags"] & SH_FLAGS.SHF_ALLOC
            if loaded and section["sh_type"] != "SHT_NOBITS" and section.name not in _UNUSED:
                digest.update(section.name.encode() + b"\0" + section.data())
    return digest.hexdigest()


def loaded(path: Path) -> str:
    return _loaded(path, path.stat().st_mtime_ns)


def key(request: Request) -> str:
    files = (request.subject.library, places.engine(), places.workload(request.keys.program))
    parts = [
        *map(loaded, files),
        *machines.lines(request.machine),
        *request.subject.environment,
        *request.arguments,
        f"{request.processors} processors, seed {request.seed}",
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def path_of(request: Request, folder: Path) -> Path:
    return folder / f"{request.name}-{key(request)[:16]}.json"


def run(request: Request, folder: Path) -> dict[str, Any]:
    """The kept record, or that of a run, which is kept. It also says what was waited for most, in
    words: later the library may have other symbols."""
    path = path_of(request, folder)
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    record = simulate.run(request)
    with _naming:
        line = cause.worst_line(record, request.subject.library)
        most = cause.worst(record, request.subject.library)
    record["waited_for"] = {
        "line": line.name, "line_share": line.share, "most": most.name, "most_share": most.share,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(record) + "\n", encoding="utf-8")
    new.replace(path)
    return record
