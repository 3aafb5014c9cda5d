"""What is known of an allocator, and what a source of allocators must be able to do.

Invariant: an allocator is either available or says in one line why it is not.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

GROUPS = ("ours", "system", "peer", "design", "bound")


@dataclass(frozen=True, slots=True)
class Allocator:
    """What to preload (nothing for glibc), or why it cannot be measured."""

    name: str
    label: str
    library: Path | None
    version: str
    missing: str | None = None
    flags: str = ""  # where it is from and how it was built
    group: str = "peer"  # one of GROUPS
    environment: tuple[tuple[str, str], ...] = ()  # what its documentation asks a user to set

    @property
    def available(self) -> bool:
        return self.missing is None

    def to_json(self) -> dict:
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
        """The library, if it is there."""

    def flags(self) -> str:
        """How it was built, as far as that is known; asked only when it is there."""

    def hint(self) -> str:
        """Why it is not there, or how to get it; asked only then."""
