#!/usr/bin/env python3
"""Each citation has an entry in docs/papers.bib, each entry is cited, and each link between pages
leads to a file and, if it names one, a heading."""

import re
from pathlib import Path

from checking import Example, Findings, line_of, run

BIBLIOGRAPHY = "docs/papers.bib"
ENTRY = re.compile(r"^@\w+\{(\w+)", re.MULTILINE)
BRACKETS = re.compile(r"\[([^\[\]]{1,200})\]")
KEY = re.compile(r"(?:^|[;/\s])([A-Z][a-z]+\d\d)\b")
LINK = re.compile(r"\]\(([^()#\s]*)(?:#([^()\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
CITING = {".h", ".hpp", ".cc", ".c", ".py", ".md", ".rs", ".toml", ".cmake"}
SKIPPED_FOLDERS = {"build", ".git", "__pycache__"}


def anchor_of(heading: str) -> str:
    """Returns the anchor that Markdown renderers make from a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def blanked(text: str) -> str:
    """Returns the text of a page with its code blanked; line numbers stay."""
    return CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group()), text)


def check_links(root: Path, name: Path, text: str, findings: Findings) -> None:
    for match in LINK.finditer(blanked(text)):
        target, anchor = match.groups()
        if re.match(r"[a-z]+:", target):
            continue
        findings.count()
        line = line_of(text, match.start())
        path = (root / name).parent / target if target else root / name
        if not path.exists():
            findings.fault(name, line, f"there is no {target}")
        elif anchor and anchor not in map(anchor_of, HEADING.findall(path.read_text("utf-8"))):
            findings.fault(name, line, f"{target or name} has no heading #{anchor}")


def check(root: Path, findings: Findings) -> None:
    entries = set(ENTRY.findall((root / BIBLIOGRAPHY).read_text(encoding="utf-8")))
    cited = set()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if SKIPPED_FOLDERS & set(name.parts) or path.suffix not in CITING or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        for brackets in BRACKETS.finditer(text):
            for key in KEY.findall(brackets.group(1)):
                findings.count()
                cited.add(key)
                if key not in entries:
                    findings.fault(name, line_of(text, brackets.start()), f"{key} has no entry")
        if path.suffix == ".md":
            check_links(root, name, text, findings)
    for key in sorted(entries - cited):
        if re.search(r"\d\d$", key):
            findings.fault(BIBLIOGRAPHY, 0, f"{key} is cited nowhere")


BIB = "@misc{Ada43, title = {Notes}}\n"
CITES = "// [Ada" "43 §1]\n"  # spelled so that this file passes its own check
EXAMPLES = [
    Example("right", {BIBLIOGRAPHY: BIB, "malloc/a.h": CITES,
                      "README.md": "# One\n[a](malloc/a.h) [b](#one) `[x](y)`\n"}, None),
    Example("key", {BIBLIOGRAPHY: BIB, "malloc/a.h": "// [Ada" "43; Bob" "99 §2]\n"}, "Bob99"),
    Example("uncited", {BIBLIOGRAPHY: BIB, "malloc/a.h": "// Ada43\n"}, "Ada43 is cited nowhere"),
    Example("file", {BIBLIOGRAPHY: BIB, "malloc/a.h": CITES, "README.md": "[a](malloc/b.h)\n"},
            "there is no malloc/b.h"),
    Example("heading", {BIBLIOGRAPHY: BIB, "malloc/a.h": CITES, "README.md": "# A\n[b](#b)\n"},
            "no heading #b"),
]

if __name__ == "__main__":
    run(__doc__, "citations and links", check, EXAMPLES)
