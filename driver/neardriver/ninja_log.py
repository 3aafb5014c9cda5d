"""The typical duration of a build's steps, from the .ninja_log of an earlier build."""

from pathlib import Path

_FEWEST = 20  # steps; fewer say nothing about the others


def seconds_per_step(tree: Path) -> float | None:
    """The mean processor seconds of one step; None if the tree has no history."""
    try:
        lines = (tree / ".ninja_log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    milliseconds: dict[str, int] = {}  # of each output; the last build counts
    for line in lines:
        fields = line.split("\t")
        if len(fields) >= 4 and fields[0].isdecimal() and fields[1].isdecimal():
            milliseconds[fields[3]] = int(fields[1]) - int(fields[0])
    if len(milliseconds) < _FEWEST:
        return None
    return sum(milliseconds.values()) / len(milliseconds) / 1000
