#!/usr/bin/env python3
"""A file of the libraries has at most 400 lines, a function at most 60."""

import re
from collections.abc import Iterator
from pathlib import Path

from checking import CODE, Example, Findings, line_of, run, sources, without_comments

FILE_LINES = 400
FUNCTION_LINES = 60
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern|concept)\b")
TEMPLATE = re.compile(r"\btemplate\s*<(?:[^<>]|<[^<>]*>)*>")
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
BOUNDARY = re.compile(r"[{};]")


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields (name, first line, last line) of each function that is not inside another one."""
    code = DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()),
                         without_comments(text))
    stack: list[tuple[bool, str, int]] = []  # open braces: is it a function's, its name, its start
    head_start = 0
    for match in BOUNDARY.finditer(code):
        if match.group() == "{":
            head = code[head_start: match.start()]
            inside = any(is_function for is_function, _, _ in stack)
            named = re.search(r"([\w:~]+|operator[^(]*)[ \t\n]*\(", head)
            declared = TEMPLATE.sub("", head).split("(")[0]
            is_container = CONTAINER.search(declared) and "){" not in head + "{"
            is_function = not inside and named is not None and not is_container
            start = head_start + len(head) - len(head.lstrip())
            stack.append((is_function, named.group(1) if named else "", start))
        elif match.group() == "}" and stack:
            is_function, name, start = stack.pop()
            if is_function:
                yield name, line_of(code, start), line_of(code, match.start())
        head_start = match.end()


def check(root: Path, findings: Findings) -> None:
    for path in sources(root, *CODE):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(root)
        findings.count()
        lines = text.count("\n")
        if lines > FILE_LINES:
            findings.fault(name, 0, f"{lines} lines, at most {FILE_LINES}")
        for function, first, last in functions(text):
            findings.count()
            if last - first + 1 > FUNCTION_LINES:
                findings.fault(name, first, f"{function} has {last - first + 1} lines, "
                                            f"at most {FUNCTION_LINES}")


def function_of(lines: int) -> str:
    return "namespace near {\nstruct Heap {\nint take(int a) {\n" + "a++;\n" * lines + "}\n};\n}\n"


EXAMPLES = [
    Example("short", {"malloc/heap/a.cc": function_of(58)}, None),
    Example("long function", {"malloc/heap/a.cc": function_of(70)}, "take has 72 lines"),
    Example("long template",
            {"malloc/heap/a.cc": function_of(70).replace("int", "template <class T> int")},
            "take has 72 lines"),
    Example("long file", {"malloc/heap/a.cc": function_of(1) * 60}, "at most 400"),
    Example("long table", {"malloc/heap/a.cc": "int t[] = {\n" + "1,\n" * 90 + "};\n"}, None),
]

if __name__ == "__main__":
    run(__doc__, "files and functions", check, EXAMPLES)
