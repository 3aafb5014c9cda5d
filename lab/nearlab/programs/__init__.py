"""The real programs of the demo and of the lab's plans: the tables of lab/programs/programs.toml.

Invariant: every program of the demo spends more than 1 % of its time in malloc under glibc; the
lab has others too. The comment of each program gives its share, sampled with perf under glibc 2.36.
`listed` needs only Python itself.
"""

import functools
import tomllib
from typing import Any

from nearlab.programs.base import SOURCES, Described, Listed, Program

PREFIX = "program:"  # what the name of a real program starts with in a plan


@functools.cache
def _tables() -> list[dict[str, Any]]:
    text = (SOURCES / "programs.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["program"])


def listed() -> dict[str, Listed]:
    """What is known of all programs, in the order in which they are listed."""
    return {table["name"]: Described(table) for table in _tables()}


def by_name() -> dict[str, Program]:
    """All programs, to be run."""
    from nearlab.programs.given import Given  # its checks of a table are slow to load

    return {table["name"]: Given.model_validate(table).program() for table in _tables()}
