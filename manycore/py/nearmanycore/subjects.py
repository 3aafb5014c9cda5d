"""Subjects: what a run preloads. nearmalloc and the published designs come from the instrumented
build, a design also as DESIGN+switch:value, and peers from their crates; `NAME=FILE` is one's own,
of sources, objects or a library.

Invariant: a subject has a library that exists, or a SubjectError says in one line why not.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nearlab import places as lab
from nearmanycore import peers, places
from nearmanycore.peers import INSTRUMENTED

_NEAR = "near"
FLAGS = ["-O2", *INSTRUMENTED]
_COMPILERS = {".c": "gcc", ".cc": "g++", ".cpp": "g++", ".cxx": "g++"}
_REQUIRED = ("malloc", "free", "calloc", "realloc")
_UNSEEN = {
    "glibc": "glibc's malloc cannot be instrumented: it is compiled into libc.so",
}


class SubjectError(ValueError):
    """An allocator that cannot be simulated, in one line."""


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    library: Path
    environment: tuple[str, ...] = ()  # variables that it needs


def names() -> list[str]:
    """The subjects that need no file."""
    return [_NEAR, *peers.NAMES, *lab.design_names()]


def find(asked: str) -> list[Subject]:
    """The subjects of a list such as `near,scalloc,mine=alloc.c+more.c`."""
    parts = [part.strip() for part in asked.split(",") if part.strip()]
    if not parts:
        raise SubjectError("no allocator is named")
    return [_find(part) for part in parts]


def _find(asked: str) -> Subject:
    name, _, files = asked.partition("=")
    if files:
        return Subject(name, _own(name, [Path(file) for file in files.split("+")]))
    if reason := _UNSEEN.get(name):
        raise SubjectError(reason)
    if name in (_NEAR, "nearmalloc"):
        return Subject(_NEAR, _built(places.build() / "libnearmalloc.so"))
    design, *switches = name.split("+")
    if design in lab.design_names():
        options = ",".join(switches).replace(":", "=")
        environment = (f"NEARMALLOC_DESIGN_OPTIONS={options}",) if switches else ()
        return Subject(name, _built(places.build() / "designs" / f"lib{design}.so"), environment)
    if name in peers.NAMES:
        return Subject(name, _peer(name))
    known = " ".join(names())
    raise SubjectError(f"there is no allocator {name}; there are: {known}, and NAME=FILE")


def _built(library: Path) -> Path:
    if not library.exists():
        raise SubjectError(f"{library} is not built")
    return library


def _peer(name: str) -> Path:
    crate = peers.get(name)
    crate.build()
    library = crate.find()
    if library is None:
        raise SubjectError(f"{name}: {crate.hint()}")
    return library


def _own(name: str, files: list[Path]) -> Path:
    if not name.isidentifier():
        raise SubjectError(f"'{name}' is no name for an allocator: letters, digits and _")
    if missing := [str(file) for file in files if not file.is_file()]:
        raise SubjectError(f"{name}: there is no file {missing[0]}")
    if [file.suffix for file in files] == [".so"]:
        library = files[0].resolve()
    else:
        library = places.subjects() / f"lib{name}.so"
        _link(name, files, library)
    _check(name, library)
    return library


def _link(name: str, files: list[Path], library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    objects = []
    for number, file in enumerate(files):
        if file.suffix == ".o":
            objects.append(file)
        elif compiler := _COMPILERS.get(file.suffix):
            made = library.with_name(f"{name}-{number}.o")
            _run(name, [compiler, *FLAGS, "-c", str(file), "-o", str(made)])
            objects.append(made)
        else:
            raise SubjectError(f"{name}: {file} is no source (.c, .cc), object or library (.so)")
    _run(name, ["g++", "-shared", "-o", str(library), *map(str, objects), "-pthread"])


def _run(name: str, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        raise SubjectError(f"{name}: {command[0]} is missing")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise SubjectError(f"{name}: {command[0]} failed: {lines[0].strip()[:300]}")


def _check(name: str, library: Path) -> None:
    """The library should define the functions of malloc, and be instrumented."""
    done = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SubjectError(f"{name}: {library} is no library: {done.stderr.strip()[:200]}")
    symbols = [line.split() for line in done.stdout.splitlines()]
    defined = {words[-1].split("@")[0] for words in symbols if len(words) == 3}
    if missing := [function for function in _REQUIRED if function not in defined]:
        raise SubjectError(f"{name}: it defines no {' and no '.join(missing)}")
    if not any(words[-1].startswith("__tsan_") for words in symbols):
        raise SubjectError(f"{name}: it is not instrumented: compile it with {' '.join(FLAGS)}")
