#!/usr/bin/env python3
"""No machine's paths, unfinished business or package hosts in any text; code within 100 columns."""

import re
from pathlib import Path

from checking import Example, Findings, run

COLUMNS = 100
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", ".ruff_cache", ".cache"}
TEXTS = {".h", ".hpp", ".cc", ".c", ".py", ".md", ".txt", ".cmake", ".in", ".map", ".toml", ".json",
         ".sql", ".sh", ".3", ".bib", ".rs", ".html", ".js", ""}
CODE_FOLDERS = {"common", "malloc", "include", "tests", "tools", "lab", "cmake", "reclaim",
                "designs", "near"}
CODE = TEXTS - {".md", ".json", ".html", ".bib", ".txt"} | {".txt"}
# Spelled so that this file passes its own check.
FORBIDDEN = [
    (re.compile(r"(?<![\w.)}\]])/(?:work|root|home)(?![\w-])"), "a path of one machine"),
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"), "unfinished business"),
    (re.compile(r"\b(?:(?:deb|snapshot|security)\.debian|pypi|[\w.]*pythonhosted|[\w.]*npmjs)\.org"
                r"|\b(?:crates|docker)\.io"), "a package host"),
]


def check(root: Path, findings: Findings) -> None:
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if SKIPPED_FOLDERS & set(name.parts) or path.suffix not in TEXTS or not path.is_file():
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            findings.fault(name, 0, "is not UTF-8")
            continue
        findings.count()
        is_code = name.parts[0] in CODE_FOLDERS and path.suffix in CODE
        for number, line in enumerate(lines, 1):
            for pattern, what in FORBIDDEN:
                if pattern.search(line):
                    findings.fault(name, number, f"{what}: {line.strip()[:60]}")
            if is_code and len(line) > COLUMNS:
                findings.fault(name, number, f"{len(line)} columns, at most {COLUMNS}")


EXAMPLES = [
    Example("clean", {"lab/a.h": "// build/work/x is ours\n", "README.md": "y" * 200 + "\n"}, None),
    Example("path", {"lab/a.py": 'p = "/wo' 'rk/main"\n'}, "a path of one machine"),
    Example("unfinished", {"malloc/a.h": "// TO" "DO: all of it\n"}, "unfinished business"),
    Example("host", {"README.md": "get it from pypi" ".org\n"}, "a package host"),
    Example("wide", {"malloc/a.h": "// " + "x" * 98 + "\n"}, "101 columns"),
]

if __name__ == "__main__":
    run(__doc__, "files", check, EXAMPLES)
