"""What a program leaked, for its page, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page without leaks does not need what searches for them
    from nearmalloc_tools.leaks.report import Leak

_ENOUGH, _SOME = 10, 3  # unreachable sampled blocks
NOT_LOOKED = (
    "the process was not looked at when it ended: it ended by a signal or by _exit, or is a child "
    "of fork"
)


@dataclass
class Leaked:
    """The leaks of a process and its allocator's rare events, or why they are not known."""

    leaks: list[Leak] = field(default_factory=list)
    unknown: str = ""
    events: list[str] = field(default_factory=list)


def confidence(leak: Leak) -> str:
    """How sure it is that the site leaks, and not that the scan missed hidden pointers."""
    if leak.lost >= _ENOUGH and leak.lost == leak.live:
        return "high"
    return "medium" if leak.lost >= _SOME else "low"
