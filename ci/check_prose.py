#!/usr/bin/env python3
"""No machine's paths, unfinished business or package hosts in any text; code within 100 columns;
plain English in comments and docs (CONTRIBUTING.md)."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from checking import TOKEN as C_TOKEN
from checking import Example, Findings, line_of, run

COLUMNS = 100
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", ".ruff_cache", ".cache"}
TEXTS = {".h", ".hpp", ".cc", ".c", ".py", ".md", ".txt", ".cmake", ".in", ".map", ".toml", ".json",
         ".sql", ".sh", ".3", ".bib", ".rs", ".html", ".js", ""}
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
C_LIKE = {".h", ".hpp", ".cc", ".c", ".rs"}
DOCUMENTS = {".md", ".3"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node) or ""


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The comments and docs of a file, each with its first line's number."""
    if path.suffix == ".py":
        yield from prose_of_python(text)
    elif path.suffix in C_LIKE:
        for match in C_TOKEN.finditer(text):
            if match.group("comment"):
                yield line_of(text, match.start()), match.group()
    elif path.suffix in DOCUMENTS:
        yield 1, re.sub(r"```.*?```", lambda code: "\n" * code.group().count("\n"), text,
                        flags=re.DOTALL)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#"):
                yield number, line


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
