"""The checks of this folder share this: the command line, the count, the report, the self-test.

A check is a function `check(root, findings)` that reads the tree at `root`, counts each thing that
it checked and records the faults. A check that counted nothing has failed. A self-test runs it on
small trees with known faults.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77  # the exit status that CTest counts as skipped
# The folders of the libraries' code: the allocator's, and the reclamation library's.
CODE = ("common", "malloc", "reclaim", "designs", "include/nearmalloc/impl",
        "include/nearmalloc/reclaim")


@dataclass
class Findings:
    """The result of a check: how many things it checked, and their faults."""

    checked: int = 0
    faults: list[str] = field(default_factory=list)

    def count(self, number: int = 1) -> None:
        self.checked += number

    def fault(self, path: Path | str, line: int, message: str) -> None:
        self.faults.append(f"{path}:{line}: {message}" if line else f"{path}: {message}")


@dataclass(frozen=True)
class Example:
    """A small tree and a part of the fault message that it must give; None: it has no fault."""

    name: str
    files: dict[str, str]
    fault: str | None


Check = Callable[[Path, Findings], None]


def run(description: str, what: str, check: Check, examples: list[Example]) -> None:
    """The `main` of a check."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--self-test", action="store_true", help="check the check on known faults")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check")
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(self_test(check, examples))
    findings = Findings()
    check(arguments.root, findings)
    sys.exit(report(what, findings))


def run_on_build(description: str | None, what: str, check: Check, self_test: Callable[[], int]
                 ) -> None:
    """The `main` of a check that needs a build: `check` gets the build's folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--self-test", action="store_true", help="check the check on known faults")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    if arguments.self_test:
        sys.exit(self_test())
    findings = Findings()
    check(arguments.build, findings)
    sys.exit(report(what, findings))


def report(what: str, findings: Findings) -> int:
    for fault in findings.faults:
        print(fault)
    print(f"{findings.checked} {what} checked, {len(findings.faults)} faults")
    print(f"cases: {findings.checked}")
    if findings.checked == 0:
        print("a check that checked nothing has failed")
    return 1 if findings.faults or findings.checked == 0 else 0


def self_test(check: Check, examples: list[Example]) -> int:
    wrong = 0
    for example in examples:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in example.files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            findings = Findings()
            check(root, findings)
            seen = "\n".join(findings.faults)
            right = (example.fault in seen) if example.fault else (not seen and findings.checked)
            if not right:
                wrong += 1
                expected = example.fault or "no fault"
                print(f"{example.name}: expected {expected!r}, saw {seen!r} "
                      f"in {findings.checked} things")
    has_both = {example.fault is None for example in examples} == {True, False}
    if not has_both:
        print("a self-test needs a tree that is right and one that is not")
    print(f"cases: {len(examples)}")
    return 1 if wrong or not has_both else 0


def sources(root: Path, *folders: str, suffixes: tuple[str, ...] = (".h", ".hpp", ".cc")
            ) -> Iterator[Path]:
    """Yields the files under root/folder with one of the suffixes, sorted, without build trees."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes and "build" not in path.parts[:-1]:
                yield path


TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"""|(?P<text>"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+')""",
    re.DOTALL,
)


def without_comments(text: str) -> str:
    """Returns C++ with comments and the contents of literals blanked; lines and columns stay."""

    def blank(match: re.Match[str]) -> str:
        token = match.group()
        if match.group("comment"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + " " * (len(token) - 2) + token[-1]

    return TOKEN.sub(blank, text)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
