"""What this repository builds: nearmalloc, the designs of the papers, the limit allocator.

Invariant: this module builds nothing; `./near build` does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nearlab import places

DESIGNS = places.design_names()


@dataclass(frozen=True, slots=True)
class Built:
    """A library of this repository. `path` is called each time, because tests name other builds."""

    path: Callable[[], Path]

    def find(self) -> Path | None:
        path = self.path()
        return path if path.exists() else None

    def flags(self) -> str:
        return "release"

    def hint(self) -> str:
        if places.INSTALLED:
            return "not in this package: name a build of yours, as in near=libnearmalloc.so"
        return "not found: build it with `./near build`"


def design(name: str) -> Built:
    return Built(lambda: places.design_library(name))
