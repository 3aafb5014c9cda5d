"""Counts of the NUMA machine in documents: medians over the seeds of a file of verdicts."""

import functools
import json
import lzma
import operator
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearlab.results.record import RecordError


@functools.cache
def verdicts(path: Path) -> list[dict[str, Any]]:
    """What the NUMA machine said of each of its runs."""
    lines = map(json.loads, lzma.decompress(path.read_bytes()).splitlines())
    return [line for line in lines if "case" in line]


def count(runs: Sequence[dict[str, Any]], key: str, case: str, allocator: str) -> str:
    """The median over the seeds of what the NUMA machine counted."""
    chosen = [one for one in runs if (one["case"], one["allocator"]) == (case, allocator)]
    try:
        words = key.split(".")
        found = [functools.reduce(operator.getitem, words, one["counts"]) for one in chosen]
        return f"{statistics.median(found):,.0f}"
    except (KeyError, TypeError, statistics.StatisticsError):
        raise RecordError(f"{case} under {allocator} has no count {key!r}") from None
