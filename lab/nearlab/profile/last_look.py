"""A look at the process that ends by exit: what can it no longer reach?"""

from pathlib import Path
from typing import Any

from nearlab.leaks.command import Watcher, leaks_in
from nearlab.profile.leaked import NOT_LOOKED, Leaked
from nearlab.profile.running import own_bytes
from nearlab.top.process import Process, Refused


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
