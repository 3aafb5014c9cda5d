"""Transparent huge pages during a run: `huge_pages` of a plan or of one of its rows.

A process may be kept from huge pages without privileges (PR_SET_THP_DISABLE, which its children
inherit): that is `never`, and since Linux 6.18 also `madvise` on a machine that is set to `always`.
Anything else that the machine is not set to is written to its setting, which only root may do.
Invariant: the driver and the machine have their own settings again after the run, also after an
interrupt. Thread-safety: one thread (the driver); a machine has one such run at a time.
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SET, _GET = 41, 42  # PR_SET_THP_DISABLE and PR_GET_THP_DISABLE of <linux/prctl.h>
_NEVER, _ADVISED_ONLY = (1, 0), (1, 2)  # 2: PR_THP_DISABLE_EXCEPT_ADVISED


def problem(wanted: str | None) -> str | None:
    """Why processes cannot have this setting here."""
    if wanted is None:
        return None
    if not SETTING.exists():
        return "this kernel has no transparent huge pages"
    now = _machines()
    if wanted == now or _kept_from(wanted, now) or os.access(SETTING, os.W_OK):
        return None
    return f"huge_pages = {wanted}: the machine's are {now}, and only root may write {SETTING}"


@contextlib.contextmanager
def during(wanted: str | None) -> Iterator[None]:
    """Processes that start within this context have the wanted setting; None: the machine's."""
    if wanted is None:
        yield
        return
    now, own = _machines(), _prctl(_GET)
    limits = _kept_from(wanted, now)
    is_written = wanted != now and limits is None
    _prctl(_SET, *(limits or (0, 0)))
    try:
        if is_written:
            SETTING.write_text(wanted)
        yield
    finally:
        _prctl(_SET, own & 1, own & 2)
        if is_written:
            SETTING.write_text(now)


def _machines() -> str:
    now = re.search(r"\[(\w+)\]", SETTING.read_text())
    return now[1] if now else "madvise"


def _kept_from(wanted: str, now: str) -> tuple[int, int] | None:
    """How a process gets the wanted setting where the machine's is `now`, if this kernel can."""
    limits = {"never": _NEVER, "madvise": _ADVISED_ONLY if now == "always" else None}.get(wanted)
    if limits is None:
        return None
    own = _prctl(_GET)
    can = own >= 0 and _prctl(_SET, *limits) == 0
    _prctl(_SET, own & 1, own & 2)
    return limits if can else None


def _prctl(option: int, disabled: int = 0, flags: int = 0) -> int:
    words = (ctypes.c_ulong(word) for word in (disabled, flags, 0, 0))
    return int(ctypes.CDLL(None).prctl(option, *words))
