"""The ledger of passed tests: which tests of a tree passed on the present sources.

build/logs/passed-<preset>.json has a fingerprint and the names. Invariant: a name counts only while
the fingerprint is that of the tree: every source file's path, size and time, the compiler, and the
variables that change tests. `./near test all` leaves these tests out.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from neardriver import paths

_VARIABLES = ("NEAR_TEST_", "NEARMALLOC_", "CFLAGS", "CXXFLAGS", "LDFLAGS", "LD_PRELOAD")
_COMPILER = re.compile(r"^CMAKE_C(?:XX)?_COMPILER:[A-Z]+=(.+)$", re.MULTILINE)


def source_files(root: Path) -> list[str]:
    """The files of the repository; those that Git does not know yet, too, unless it ignores them.
    Without Git: all files outside build/."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        done = None
    if done is not None and done.returncode == 0:
        return sorted({name for name in done.stdout.split("\0") if name})
    return sorted(_walked(root))


def _walked(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        kept = Path(folder).relative_to(root)
        folders[:] = [each for each in folders if each not in ("build", ".git", "__pycache__")]
        yield from (str(kept / file) for file in files)


def fingerprint(root: Path, compilers: Iterable[Path], variables: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for path in (*(root / name for name in source_files(root)), *compilers):
        try:
            state = path.resolve().stat()
            digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
        except OSError:
            digest.update(f"{path}\0gone\n".encode())
    for name, value in sorted(variables.items()):
        if name.startswith(_VARIABLES):
            digest.update(f"{name}={value}\n".encode())
    return digest.hexdigest()


def of_tree(preset: str) -> str:
    """The fingerprint of a configured tree."""
    cache = paths.tree(preset) / "CMakeCache.txt"
    compilers = _COMPILER.findall(cache.read_text(encoding="utf-8", errors="replace"))
    return fingerprint(paths.ROOT, [Path(each) for each in compilers], os.environ)


class Ledger:
    """The passed tests of one tree for one fingerprint."""

    def __init__(self, path: Path, present: str) -> None:
        self._path = path
        self._present = present

    def passed(self) -> set[str]:
        """The tests that passed on the present sources."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return set()
        return set(kept["names"]) if kept["fingerprint"] == self._present else set()

    def add(self, passed: set[str], failed: set[str]) -> None:
        names = (self.passed() | passed) - failed
        kept = {"fingerprint": self._present, "names": sorted(names)}
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        fresh.replace(self._path)


def ledger(preset: str, present: str) -> Ledger:
    return Ledger(paths.LOGS / f"passed-{preset}.json", present)
