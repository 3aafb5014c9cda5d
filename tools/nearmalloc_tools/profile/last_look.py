"""A look at the process that ends by exit: what can it no longer reach?"""

from typing import Any

from nearmalloc_tools.debugger.debugger_commands import events_of
from nearmalloc_tools.errors import Refused
from nearmalloc_tools.leaks.command import Watcher, seen_of
from nearmalloc_tools.profile.leaked import NOT_LOOKED, Leaked
from nearmalloc_tools.profile.running import own_bytes
from nearmalloc_tools.top.process import Process


class LastLook(Watcher):
    """Looks at the process that allocated most, of those that ended so far."""

    def __init__(self) -> None:
        super().__init__()
        self._largest = 0.0
        self._found: dict[int, Leaked] = {}

    def handle(self, process: Process, exit_report: dict[str, Any]) -> None:
        size = own_bytes(exit_report)
        if size <= self._largest:
            return
        self._largest = size
        self._found = {}
        try:
            leaks, census = seen_of(process, exit_report, [])
            found = Leaked(leaks, events=events_of(census))
        except Refused as refusal:
            found = Leaked(unknown=str(refusal))
        self._found = {process.pid: found}

    def of(self, pid: int) -> Leaked:
        return self._found.get(pid, Leaked(unknown=NOT_LOOKED))
