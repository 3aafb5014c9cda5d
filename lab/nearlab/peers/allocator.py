"""What is known of an allocator, and what a source of allocators must be able to do.

Invariant: an allocator is either available or says in one line why it is not.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Allocator:
    """What to preload (nothing for glibc), or why it cannot be measured."""

    name: str
    label: str
    library: Path | None
    version: str
    missing: str | None = None
    flags: str = ""  # where it is from and how it was built
    group: str = "peer"  # ours, system, peer, design or bound
    environment: tuple[tuple[str, str], ...] = ()  # variables that its documentation requires

    @property
    def available(self) -> bool:
        return self.missing is None

    def to_json(self) -> dict[str, Any]:
        record = {
            "name": self.name,
            "label": self.label,
            "library": None if self.library is None else str(self.library),
            "version": self.version,
            "flags": self.flags,
            "group": self.group,
            "environment": dict(self.environment),
        }
        return record | ({"missing": self.missing} if self.missing else {})


class Source(Protocol):
    """Where the library of one allocator comes from."""

    def find(self) -> Path | None:
        """Returns the library if it is installed."""

    def flags(self) -> str:
        """Returns how the library was built, as far as that is known. Call it only if `find` found
        it."""

    def hint(self) -> str:
        """Returns why the library is missing, or how to get it. Call it only if `find` found
        nothing."""
