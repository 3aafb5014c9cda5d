#!/usr/bin/env python3
"""No machine's paths, unfinished business or package hosts in any text; code within 100 columns;
plain English in comments and docs (CONTRIBUTING.md)."""

import re
from pathlib import Path

from checking import Example, Findings, run
from prose import TEXTS, prose, texts

COLUMNS = 100
CODE_FOLDERS = {"common", "malloc", "include", "tests", "tools", "ci", "vm", "lab", "cmake",
                "reclaim", "designs", "near", "driver"}
CODE = TEXTS - {".md", ".json", ".html", ".bib", ".txt"} | {".txt"}
# Spelled so that this file passes its own check.
FORBIDDEN = [
    (re.compile(r"(?<![\w.)}\]])/(?:work|root|home)(?![\w-])"), "a path of one machine"),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"), "unfinished business"),
    (re.compile(r"\b(?:(?:deb|snapshot|security)\.debian|pypi|[\w.]*pythonhosted|[\w.]*npmjs)\.org"
                r"|\b(?:crates|docker)\.io"), "a package host"),
]

# Words that hide the actor or the mechanism. Some are right at times ("who" for a person), so their
# number is limited, not each of them forbidden.
OBSCURE = re.compile(
    r"\b(?:who(?:ever|m)?|shall|but\s+for|to\s+be\s+had|lately|tells\s+of|came\s+of"
    r"|looks?\s+after|stands?\s+in|wish(?:es)?|his|he)\b", re.IGNORECASE)
OBSCURE_PER_1000_WORDS = 0.3


class English:
    """How many words there are in all files, and where the obscure ones are."""

    def __init__(self) -> None:
        self.words = 0
        self.obscure: list[tuple[Path, int, str]] = []

    def read(self, name: Path, text: str) -> None:
        for first, part in prose(name, text):
            self.words += len(part.split())
            for match in OBSCURE.finditer(part):
                line = first + part.count("\n", 0, match.start())
                self.obscure.append((name, line, match.group()))

    def report(self, findings: Findings) -> None:
        rate = 1000 * len(self.obscure) / max(self.words, 1)
        print(f"{len(self.obscure)} obscure words among {self.words}: {rate:.2f} per 1,000")
        if rate < OBSCURE_PER_1000_WORDS:
            return
        for name, line, word in self.obscure:
            findings.fault(name, line, f"'{' '.join(word.split())}' hides the actor")


def check(root: Path, findings: Findings) -> None:
    english = English()
    for path in texts(root):
        name = path.relative_to(root)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            findings.fault(name, 0, "is not UTF-8")
            continue
        findings.count()
        english.read(name, "\n".join(lines))
        is_code = name.parts[0] in CODE_FOLDERS and path.suffix in CODE
        for number, line in enumerate(lines, 1):
            for pattern, what in FORBIDDEN:
                if pattern.search(line):
                    findings.fault(name, number, f"{what}: {line.strip()[:60]}")
            if is_code and len(line) > COLUMNS:
                findings.fault(name, number, f"{len(line)} columns, at most {COLUMNS}")
    english.report(findings)


EXAMPLES = [
    Example("clean", {"lab/a.h": "// build/work/x is ours\n", "README.md": "y" * 200 + "\n"}, None),
    Example("path", {"lab/a.py": 'p = "/wo' 'rk/main"\n'}, "a path of one machine"),
    Example("unfinished", {"malloc/a.h": "// TO" "DO: all of it\n"}, "unfinished business"),
    Example("host", {"README.md": "get it from pypi" ".org\n"}, "a package host"),
    Example("who", {"src/a.h": "// the lock, for whoever sleeps\n"}, "'whoever' hides the actor"),
    Example("two lines", {"README.md": "All is well, but\nfor one.\n"}, "'but for' hides"),
    Example("docstring", {"lab/a.py": '"""Does it.\n\nThe tester shall look."""\n'}, "'shall'"),
    Example("code", {"README.md": "```\nwho\n```\n", "src/a.h": 'char he[] = "whom";\n'}, None),
    Example("wide", {"malloc/a.h": "// " + "x" * 98 + "\n"}, "101 columns"),
]

if __name__ == "__main__":
    run(__doc__, "files", check, EXAMPLES)
