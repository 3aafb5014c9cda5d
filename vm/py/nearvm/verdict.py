"""Reads and judges a guest's output: the results of its steps, and the verdict of a case.

Invariant: a step that did not begin, did not end, printed no result, or ran without its
library is a failure with a reason, never an absent line. A verdict is one JSON object.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_MARK = re.compile(r"^near-vm (begin|end|note)(?: (.*))?$")
_CONDITION = re.compile(r"^(==|!=|<=|>=|<|>) *(\S+)$")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_NOT_PRELOADED = "cannot be preloaded"


class VerdictError(ValueError):
    """A condition that cannot be read, in one line."""


@dataclass(slots=True)
class Said:
    """The output of one step."""

    name: str
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # lines of its error output
    status: int | None = None  # None if it never ended

    def result(self) -> dict[str, Any] | None:
        """The last line that is a JSON object."""
        for line in reversed(self.lines):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
        return None

    def failure(self) -> str | None:
        """Why this step failed; None if it did not."""
        last = f": {self.notes[-1]}" if self.notes else ""
        if self.status is None:
            return f"{self.name} did not end{last}"
        if lost := [note for note in self.notes if _NOT_PRELOADED in note]:
            return f"{self.name} was not served: {lost[0]}"
        if self.status != 0:
            return f"{self.name} ended with {self.status}{last}"
        return None if self.result() is not None else f"{self.name} printed no result{last}"


def read(text: str) -> list[Said]:
    """The steps in the order in which they began."""
    steps: list[Said] = []
    inside = False
    for line in text.splitlines():
        mark = _MARK.match(line)
        if mark is None:
            if inside and line:
                steps[-1].lines.append(line)
        elif mark[1] == "begin":
            steps.append(Said(_bare(mark[2] or "")))
            inside = True
        elif inside and mark[1] == "note":
            steps[-1].notes.append(mark[2] or "")
        elif inside and mark[1] == "end":
            steps[-1].status = _status(mark[2] or "")
            inside = False
    return steps


def _bare(name: str) -> str:
    """The name without the number that orders the steps."""
    return name.partition("-")[2]


def _status(words: str) -> int | None:
    last = words.rpartition(" ")[2]
    return int(last) if last.isdigit() else None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one entry of a result: `== 0`, `> 0`, `== true`. A key with dots names an
    entry of a table in it: `counts.heap.remote`."""

    key: str
    text: str

    def problem(self, result: Mapping[str, object]) -> str | None:
        compare, value = self._parts()
        found: object = result
        for part in self.key.split("."):
            if not isinstance(found, Mapping) or part not in found:
                return f"{self.key} is not in the result"
            found = found[part]
        try:
            right = compare(found, value)
        except TypeError:
            right = False
        return None if right else f"{self.key} is {json.dumps(found)}, expected {self.text}"

    def _parts(self) -> tuple[Callable[[object, object], bool], object]:
        parts = _CONDITION.match(self.text)
        if parts is None:
            raise VerdictError(f"{self.key}: {self.text!r} is no condition such as `== 0`")
        try:
            return _OPERATORS[parts[1]], json.loads(parts[2])
        except ValueError:
            raise VerdictError(f"{self.key}: {parts[2]!r} is no JSON value") from None

    def check(self) -> None:
        """Raises a VerdictError if the condition cannot be read."""
        self._parts()


def problems(
    said: Said, conditions: Sequence[Condition], counts: dict[str, Any] | None = None
) -> list[str]:
    """All faults of a step's output and of its counts, which conditions read as the entry
    `counts`; empty if all is as expected."""
    if failure := said.failure():
        return [failure]
    result = (said.result() or {}) | {"counts": counts or {}}
    return [found for each in conditions if (found := each.problem(result))]


def cpu_list(text: str) -> list[int]:
    """The numbers in a text such as `0-1,4`, the kernel's form of sets of numbers."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
