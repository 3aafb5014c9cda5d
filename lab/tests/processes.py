"""Queries about a process that the test did not start itself."""

import time
from pathlib import Path


def ends(pid: int, within_s: float = 30) -> bool:
    """True if it ends within the time: the kernel ends it a moment after it was killed."""
    deadline = time.monotonic() + within_s
    while not _has_ended(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state.startswith("Z")  # its parent may be slow to wait for it
