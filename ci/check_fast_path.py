#!/usr/bin/env python3
"""The machine code of malloc's and free's fast path keeps to ci/fast_path_budget.toml.

The path goes from the entry to the first `ret`, takes no conditional jump and follows direct jumps.
It has no more instructions than budgeted, no call, no lock prefix and no indirect jump. It reads
only the listed data of the process, so it does not read the number of nodes.
"""

import argparse
import itertools
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from checking import ROOT, SKIPPED, Findings, report

INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t([a-z].*)$", re.MULTILINE)
PADDING = ("nop", "data16", "cs nop", "xchg   %ax,%ax", "endbr64")
DATA = re.compile(r"\(%rip\).*<(?:near::)?([^+>]+)")
THREAD = "_GLOBAL_OFFSET_TABLE_"  # where thread-local data are
LONGEST = 200


def disassemble(library: Path) -> dict[int, str]:
    text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", str(library)], check=True,
                          capture_output=True, text=True).stdout
    return parse(text)


def parse(text: str) -> dict[int, str]:
    return {int(address, 16): code for address, code in INSTRUCTION.findall(text)}


def entry_of(library: Path, function: str) -> int | None:
    names = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True,
                           capture_output=True, text=True).stdout
    found = re.search(rf"^([0-9a-f]+) [TWi] {re.escape(function)}(?:@.*)?$", names, re.MULTILINE)
    return int(found.group(1), 16) if found else None


def fast_path(code: dict[int, str], entry: int) -> tuple[list[str], str | None]:
    """Returns the instructions from `entry` to `ret`, and their first fault."""
    following = dict(itertools.pairwise(sorted(code)))
    path: list[str] = []
    address: int | None = entry
    while address in code and len(path) < LONGEST:
        instruction = code[address]
        name = instruction.split()[0]
        if not instruction.startswith(PADDING):
            path.append(instruction)
        if "ret" in name or name == "repz":
            return path, None
        if name.startswith("lock") or (name.startswith("xchg") and "(" in instruction):
            return path, f"a locked instruction: {instruction}"
        if name.startswith("call"):
            return path, f"a call: {instruction}"
        if name.startswith("jmp"):
            target = re.match(r"jmp\s+([0-9a-f]+)\b", instruction)
            if not target:
                return path, f"an indirect jump: {instruction}"
            address = int(target.group(1), 16)
        else:
            address = following.get(address)
    return path, "no ret on the fall-through path"


def check_function(code: dict[int, str], name: str, entry: int, budget: int, known: list[str],
                   findings: Findings) -> None:
    path, wrong = fast_path(code, entry)
    findings.count(len(path))
    print(f"{name}: {len(path)} instructions, budget {budget}")
    if wrong:
        findings.fault(name, 0, wrong)
    elif len(path) > budget:
        findings.fault(name, 0, f"{len(path)} instructions, budget {budget}")
    for data in {found for line in path for found in DATA.findall(line)} - {*known, THREAD}:
        findings.fault(name, 0, f"reads {data}, which is not in its list of data")
    if findings.faults:
        print("\n".join(f"    {instruction}" for instruction in path))


EXAMPLES = [
    ("short", "10:\tmov    (%rdi),%rax\n 13:\tje     40\n 15:\tret\n", None),
    ("followed", "10:\tjmp    20 <x>\n 20:\tmov    %rax,%rbx\n 22:\tret\n", None),
    ("long", "10:\tinc %rax\n 11:\tinc %rax\n 12:\tinc %rax\n 13:\tinc %rax\n 14:\tret\n",
     "5 instructions, budget 4"),
    ("call", "10:\tcall   30 <slow>\n 15:\tret\n", "a call"),
    ("atomic", "10:\tlock xadd %rax,(%rdi)\n 15:\tret\n", "a locked"),
    ("exchange", "10:\txchg   %rax,(%rdi)\n 15:\tret\n", "a locked"),
    ("plt", "10:\tjmp    *0x20(%rip)\n", "an indirect"),
    ("known data", "10:\tmov    0x9(%rip),%rax  # 18 <near::base>\n 15:\tret\n", None),
    ("thread", "10:\tmov    0x9(%rip),%rax  # 18 <_GLOBAL_OFFSET_TABLE_+0x1b0>\n 15:\tret\n", None),
    ("nodes", "10:\tcmpb   $0x1,0x9(%rip)  # 18 <near::topology+0x8>\n 15:\tret\n",
     "reads topology, which"),
    ("endless", "10:\tjmp    10 <x>\n", "no ret"),
]


def self_test() -> int:
    wrong = 0
    for name, text, fault in EXAMPLES:
        findings = Findings()
        check_function(parse(text), name, 0x10, 4, ["base"], findings)
        seen = "\n".join(findings.faults)
        if (fault not in seen) if fault else seen:
            wrong += 1
            print(f"{name}: expected {fault or 'no fault'!r}, saw {seen!r}")
    print(f"cases: {len(EXAMPLES)}")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true", help="check the check on known faults")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if platform.machine() != "x86_64":
        print("cases: 0\nbudgets are for x86-64")
        return SKIPPED
    library = arguments.build / "libnearmalloc.so"
    budgets = tomllib.loads((ROOT / "ci/fast_path_budget.toml").read_text(encoding="utf-8"))
    findings = Findings()
    code = disassemble(library)
    for name, budget in budgets["instructions"].items():
        entry = entry_of(library, name)
        if entry is None:
            findings.fault(library.name, 0, f"exports no {name}")
        else:
            check_function(code, name, entry, budget, budgets["data"][name], findings)
    return report("instructions", findings)


if __name__ == "__main__":
    sys.exit(main())
