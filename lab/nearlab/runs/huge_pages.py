"""The kernel's setting of transparent huge pages during a run: `huge_pages` of a plan's row.

Invariant: the machine has its own setting again after the run, also after an interrupt. Only root
may change it. Thread-safety: one thread (the driver); a machine has one such run at a time.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def problem() -> str | None:
    """Why the setting cannot be changed here."""
    if not SETTING.exists():
        return "this kernel has no transparent huge pages"
    return None if os.access(SETTING, os.W_OK) else f"only root may write {SETTING}"


@contextlib.contextmanager
def during(wanted: str | None) -> Iterator[None]:
    """Within this context the machine has the wanted setting; None: its own."""
    if wanted is None:
        yield
        return
    now = re.search(r"\[(\w+)\]", SETTING.read_text())
    SETTING.write_text(wanted)
    try:
        yield
    finally:
        SETTING.write_text(now[1] if now else "madvise")
