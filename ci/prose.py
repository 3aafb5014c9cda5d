"""The prose of a file, for the checks of language: comments, docstrings and documents."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from checking import TOKEN as C_TOKEN
from checking import line_of

SKIPPED_FOLDERS = {"build", ".git", "__pycache__", ".ruff_cache", ".pytest_cache", ".mypy_cache",
                   ".hypothesis", ".cache"}
TEXTS = {".h", ".hpp", ".cc", ".c", ".py", ".md", ".txt", ".cmake", ".in", ".map", ".toml", ".json",
         ".sql", ".sh", ".1", ".3", ".bib", ".rs", ".html", ".js", ""}
C_LIKE = {".h", ".hpp", ".cc", ".c", ".rs"}
DOCUMENTS = {".md", ".1", ".3"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(root: Path) -> Iterator[Path]:
    """The files of the tree with comments or prose, sorted, without build trees."""
    for path in sorted(root.rglob("*")):
        skipped = SKIPPED_FOLDERS & set(path.relative_to(root).parts)
        if not skipped and path.suffix in TEXTS and path.is_file():
            yield path


def prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            yield node.body[0].lineno, ast.get_docstring(node) or ""


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The comments and docs of a file, each with the number of the first line."""
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
