#!/usr/bin/env python3
"""Every atomic operation of the libraries states its order and its reason.

A non-relaxed operation has, on its own lines or one of the three before, a comment
`pairs: <label>[, <label>]`. A label needs at least two operations, of which one releases and one
acquires. A relaxed operation has `relaxed: <why>` in the same place, unless its file has
`relaxed in this file: <why>`. A barrier call may have a label too, and then both releases and
acquires. A label that belongs to no operation is a fault. `pairs: program` means that the partner
is in the program that uses the library.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from checking import CODE, TOKEN, Example, Findings, line_of, run, sources, without_comments

LINES_BEFORE = 3
CALL = re.compile(
    r"(?:(?:\.|->)(?:load|store|exchange|compare_exchange_\w+|fetch_\w+|test_and_set)"
    r"|\batomic_(?:thread|signal)_fence|\b__atomic_\w+|\b__sync_\w+)[ \t\n]*\("
)
BARRIER = re.compile(r"\b\w*(?:barrier|fence)\w*[ \t]*\(")
ORDER = re.compile(r"\bmemory_order(?:_|::)(\w+)|\bk(Relaxed|Acquire|Release|AcqRel|SeqCst)\b"
                   r"|\b__ATOMIC_(\w+)")
DEFINITION = re.compile(r"\bmemory_order[ \t]+\w+[ \t]*[={,)]")
PAIRS = re.compile(r"\bpairs: ([a-z][\w-]*(?:, [a-z][\w-]*)*)")
RELAXED = re.compile(r"\brelaxed: \S+")
WAIVER = re.compile(r"\brelaxed in this file: \S+")
OF_PROGRAM = "program"
RELEASING = {"release", "acqrel", "seqcst"}
ACQUIRING = {"acquire", "consume", "acqrel", "seqcst"}


@dataclass
class Operation:
    first: int
    last: int
    orders: set[str]
    is_barrier: bool = False

    def is_relaxed(self) -> bool:
        return self.orders == {"relaxed"}


def orders_in(code: str) -> set[str]:
    return {"".join(match.groups("")).lower().replace("_", "") for match in ORDER.finditer(code)}


def end_of_call(code: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code) - 1


def operations_of(code: str) -> list[Operation]:
    found = []
    covered: set[int] = set()
    for match in CALL.finditer(code):
        end = end_of_call(code, match.end() - 1)
        first, last = line_of(code, match.start()), line_of(code, end)
        found.append(Operation(first, last, orders_in(code[match.start(): end])))
        covered.update(range(first, last + 1))
    for number, line in enumerate(code.splitlines(), 1):
        if number in covered or DEFINITION.search(line):
            continue
        if orders_in(line):  # an order passed to a function of ours
            found.append(Operation(number, number, orders_in(line)))
        elif BARRIER.search(line):
            found.append(Operation(number, number, set(RELEASING), is_barrier=True))
    return found


def comments_by_line(text: str) -> dict[int, str]:
    comments: dict[int, str] = defaultdict(str)
    for match in TOKEN.finditer(text):
        if match.group("comment"):
            for offset, line in enumerate(match.group().splitlines()):
                comments[line_of(text, match.start()) + offset] += line
    return comments


def check(root: Path, findings: Findings) -> None:
    sides: dict[str, list[tuple[Path, int, set[str]]]] = defaultdict(list)
    for path in sources(root, *CODE):
        text = path.read_text(encoding="utf-8")
        check_file(text, path.relative_to(root), sides, findings)
    for label, operations in sorted(sides.items()):
        if label == OF_PROGRAM:
            continue
        path, line, _ = operations[0]
        orders = set().union(*(each for _, _, each in operations))
        if len(operations) < 2:
            findings.fault(path, line, f"label '{label}' has one operation: where is its partner?")
        elif not orders & RELEASING or not orders & ACQUIRING:
            findings.fault(path, line, f"label '{label}' lacks a side that releases or acquires")


def check_file(text: str, name: Path, sides, findings: Findings) -> None:
    comments = comments_by_line(text)
    waived = WAIVER.search(text) is not None
    used: set[int] = set()
    operations = operations_of(without_comments(text))
    taken = {line for each in operations for line in range(each.first, each.last + 1)}
    for operation in operations:
        before = range(operation.first - LINES_BEFORE, operation.first)
        own = range(operation.first, operation.last + 1)
        # A comment on the line of another operation belongs to that operation.
        near = [line for line in before if line not in taken] + list(own)
        labelled = [line for line in near if PAIRS.search(comments.get(line, ""))]
        labelled = [line for line in labelled if line in own] or labelled[-1:]
        if operation.is_barrier and not labelled:
            continue
        findings.count()
        if not operation.orders:
            findings.fault(name, operation.first, "an atomic operation must state its order")
        elif operation.is_relaxed():
            reason = any(RELAXED.search(comments.get(line, "")) for line in near)
            if not reason and not waived:
                findings.fault(name, operation.first, "relaxed without `relaxed: <why>`")
            continue
        elif not labelled:
            findings.fault(name, operation.first, "no `pairs: <label>` names its partner")
        for line in labelled:
            used.add(line)
            for label in PAIRS.search(comments[line]).group(1).split(", "):
                sides[label].append((name, operation.first, operation.orders))
    for line, comment in comments.items():
        if PAIRS.search(comment) and line not in used:
            findings.fault(name, line, "a `pairs:` label without an operation")


PUSH = "void push() { head_.store(1, kRelease); }  // pairs: stack\n"
BARE_PUSH = PUSH.split("//")[0] + "\n"
TAKE = "int take() { return head_.load(std::memory_order_acquire); }  // pairs: stack\n"
HINT = "int hint() { return head_.load(kRelaxed); }"
EXAMPLES = [
    Example("both sides", {"malloc/a.h": PUSH + TAKE}, None),
    Example("label above", {"malloc/a.h": "// pairs: stack\n" + BARE_PUSH + TAKE}, None),
    Example("barrier", {"malloc/a.h": PUSH + "  heavy_barrier();  // pairs: stack\n"}, None),
    Example("relaxed with a reason", {"malloc/a.h": HINT + "  // relaxed: a hint\n"}, None),
    Example("waived", {"malloc/a.h": "// relaxed in this file: counters\n" + HINT + "\n"}, None),
    Example("the program's", {"reclaim/a.cc": TAKE.replace("stack", "program")}, None),
    Example("a header", {"include/nearmalloc/reclaim/a.hpp": BARE_PUSH}, "names its partner"),
    Example("no label", {"malloc/a.h": BARE_PUSH + TAKE}, "names its partner"),
    Example("a neighbour's label", {"malloc/a.h": PUSH + TAKE + BARE_PUSH}, "names its partner"),
    Example("one side", {"malloc/a.h": PUSH}, "where is its partner"),
    Example("two of one side", {"malloc/a.h": PUSH + PUSH}, "lacks a side"),
    Example("no order", {"malloc/a.h": "int f() { return head_.load(); }\n"}, "state its order"),
    Example("no reason", {"malloc/a.h": HINT + "\n"}, "relaxed without"),
    Example("stray label", {"malloc/a.h": PUSH + TAKE + "\n\n\n// pairs: stack\n"}, "without an"),
    Example("handed on", {"malloc/a.h": "void f() { give(word_, kRelease); }\n"}, "its partner"),
]

if __name__ == "__main__":
    run(__doc__, "operations", check, EXAMPLES)
