"""The code that a process of another user runs, as the kernel tells it.

This program believes numbers of such a process, and not names of files: it would read any of them,
with root's rights.
"""

import os
from typing import Any

from nearmalloc_tools.profile.symbols import segments
from nearmalloc_tools.safe_open import safe_open
from nearmalloc_tools.top.process import Process


def _is_believed(file: str) -> bool:
    """It is a regular file of root or of this program's user."""
    try:
        with safe_open(file, {0, os.getuid()}):
            return True
    except OSError:
        return False


def modules(process: Process) -> list[dict[str, Any]]:
    """Its code, as profiles in JSON list it, without files that are not believed or are deleted."""
    found = []
    for line in process.file("maps").splitlines():
        words = line.split(maxsplit=5)
        if len(words) < 6 or "x" not in words[1] or not _is_believed(words[5]):
            continue
        start, end = (int(each, 16) for each in words[0].split("-"))
        build_id = segments(words[5])[1]
        common = {"offset": int(words[2], 16), "build_id": build_id, "file": words[5]}
        found.append(common | {"start": start, "end": end})
    return found
