"""The options of a point, read from the command of its cell."""

import re
from collections.abc import Sequence

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def option(argv: Sequence[str], name: str, default: str = "") -> str:
    """The value of `--name`; the default if the command has none."""
    flag = f"--{name}"
    return argv[argv.index(flag) + 1] if flag in argv[:-1] else default


def in_bytes(text: str) -> int:
    """65536 for "64KiB"; 0 if it is no size."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    return int(match[1]) * _UNITS.get(match[2], 0) if match else 0
