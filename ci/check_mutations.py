#!/usr/bin/env python3
"""Every order and every fence of the reclamation protocols is necessary in a model.

In the headers PROTOCOLS each non-relaxed operation, and each call of a fence, has a mutation in
tests/model/*_model.cc that weakens it and that the model must find. Otherwise it is listed as
redundant in docs/decisions/0009-reclamation-orders.md, in a line that begins with "- `<file>`
`<function>` `<text>`:", where the text is a piece of its line of code. A mutation or an entry that
fits nothing is a fault.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from check_atomics import operations_of
from check_file_size import functions
from checking import Example, Findings, run, sources, without_comments

FOLDER = "include/nearmalloc/reclaim/impl"
PROTOCOLS = ("epoch.hpp", "quiescence.hpp", "token.hpp", "hazard.hpp", "loose_slots.hpp",
             "aside.hpp", "owner_lock.hpp", "owner_word.hpp", "record_list.hpp", "interval.hpp",
             "batches.hpp", "flight_counts.hpp")
REDUNDANT = "docs/decisions/0009-reclamation-orders.md"
MUTATION = re.compile(
    r'\{\s*"[^"]*",\s*"(?P<file>[\w.]+)",\s*"(?P<function>[^"]*)",\s*k(?P<order>\w+),'
    r'\s*k\w+(?:,\s*"(?P<text>[^"]*)")?\s*\}')
ENTRY = re.compile(r"^- `([\w.]+)` `([\w:]+)` `([^`]+)`:", re.MULTILINE)
FENCE = re.compile(r"^\s*(?:light|heavy)_fence\(")


@dataclass
class Order:
    file: str
    line: int
    function: str
    text: str  # of its first line
    orders: set[str]


@dataclass
class Claim:
    where: str
    file: str
    function: str
    text: str
    orders: set[str]
    used: bool = False

    def fits(self, order: Order) -> bool:
        return (self.file == order.file and self.function == order.function
                and self.text in order.text
                and (not self.orders or bool(self.orders & order.orders)))


def orders_of(path: Path) -> list[Order]:
    code = without_comments(path.read_text(encoding="utf-8"))
    lines = code.splitlines()
    spans = list(functions(code))
    found = []

    def add(line: int, orders: set[str]) -> None:
        names = [name for name, first, last in spans if first <= line <= last]
        found.append(Order(path.name, line, names[-1] if names else "", lines[line - 1], orders))

    for operation in operations_of(code):
        strong = operation.orders - {"relaxed"}
        if strong and not operation.is_barrier:
            add(operation.first, strong)
    for number, line in enumerate(lines, 1):
        if FENCE.search(line):
            add(number, {"seqcst"})
    return found


def claims_of(root: Path) -> list[Claim]:
    claims = []
    for path in sources(root, "tests/model", suffixes=(".cc",)):
        for match in MUTATION.finditer(path.read_text(encoding="utf-8")):
            if match["file"] in PROTOCOLS:
                claims.append(Claim(f"{path.name}: a mutation", match["file"],
                                    match["function"].strip(":("), match["text"] or "",
                                    {match["order"].lower()}))
    if (root / REDUNDANT).exists():
        for entry in ENTRY.findall((root / REDUNDANT).read_text(encoding="utf-8")):
            claims.append(Claim(REDUNDANT, *entry, set()))
    return claims


def check(root: Path, findings: Findings) -> None:
    claims = claims_of(root)
    for name in PROTOCOLS:
        path = root / FOLDER / name
        for order in orders_of(path) if path.exists() else []:
            findings.count()
            fitting = [each for each in claims if each.fits(order)]
            for each in fitting:
                each.used = True
            if not fitting:
                findings.fault(path.relative_to(root), order.line,
                               f"{order.function}: no mutation weakens this ({order.text.strip()})")
    for each in claims:
        if not each.used:
            findings.fault(each.where, 0, f"{each.file} {each.function} {each.text}: fits nothing")


HEADER = f"{FOLDER}/token.hpp"
CODE = "void f() {\n  light_fence(x);\n  a.store(1, kRelease);\n  b.store(1, kRelaxed);\n}\n"
ON_FENCE = '{"a", "token.hpp", "::f(", kSeqCst, kRelaxed},\n'
ON_STORE = '{"b", "token.hpp", "::f(", kRelease, kRelaxed,\n "a.store"},\n'
MODEL = "tests/model/a_model.cc"
EXAMPLES = [
    Example("all", {HEADER: CODE, MODEL: ON_FENCE + ON_STORE}, None),
    Example("listed", {HEADER: CODE, MODEL: ON_FENCE,
                       REDUNDANT: "- `token.hpp` `f` `a.store`: as\n"}, None),
    Example("no fence", {HEADER: CODE, MODEL: ON_STORE}, "token.hpp:2: f: no mutation"),
    Example("no order", {HEADER: CODE, MODEL: ON_FENCE}, "token.hpp:3: f: no mutation"),
    Example("stale", {HEADER: CODE, MODEL: ON_FENCE + ON_STORE.replace("a.s", "c.s") + ON_STORE},
            "token.hpp f c.store: fits nothing"),
]

if __name__ == "__main__":
    run(__doc__, "orders and fences", check, EXAMPLES)
