"""What a program leaked, for its page: a look at the process when it ends by exit."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearlab.leaks.command import Watcher, leaks_in
from nearlab.leaks.report import Leak
from nearlab.profile.running import own_bytes
from nearlab.top.process import Process, Refused

_ENOUGH, _SOME = 10, 3  # unreachable sampled blocks
NOT_LOOKED = (
    "the process was not looked at when it ended: it ended by a signal or by _exit, or is a child "
    "of fork"
)


@dataclass
class Leaked:
    """The leaks of a process, or why they are not known."""

    leaks: list[Leak] = field(default_factory=list)
    unknown: str = ""


def confidence(leak: Leak) -> str:
    """How sure it is that the site leaks, and not that the scan missed hidden pointers."""
    if leak.lost >= _ENOUGH and leak.lost == leak.live:
        return "high"
    return "medium" if leak.lost >= _SOME else "low"


class LastLook(Watcher):
    """Looks at the process that allocated most, of those that ended so far."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._largest = 0.0
        self._found: dict[int, Leaked] = {}

    def handle(self, process: Process, told: dict[str, Any]) -> None:
        size = own_bytes(told)
        if size <= self._largest:
            return
        self._largest = size
        try:
            found = Leaked(leaks_in(process, told, []))
        except Refused as refusal:
            found = Leaked(unknown=str(refusal))
        self._found = {process.pid: found}

    def of(self, pid: int) -> Leaked:
        return self._found.get(pid, Leaked(unknown=NOT_LOOKED))
