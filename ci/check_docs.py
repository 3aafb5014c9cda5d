#!/usr/bin/env python3
"""The documents' commands run, and docs/options.md is what near-options prints.

In the `sh` blocks of the READMEs, ARCHITECTURE.md, CONTRIBUTING.md, docs/*.md and designs/, it runs
each line that starts with `./near` and expects success. It does not run the lines in
ci/documented_commands.toml, which names the test that runs each: lines that take long, and all
lines that do not start with `./near`.
"""

import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

from checking import ROOT, Findings, line_of, run_on_build

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 120


def documents(root: Path) -> list[Path]:
    names = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "lab/README.md",
             "tools/README.md", "vm/README.md", "manycore/README.md")
    named = [root / name for name in names]
    more = [*sorted((root / "docs").glob("*.md")), *sorted((root / "designs").rglob("*.md"))]
    return [path for path in named if path.exists()] + more


def commands(text: str) -> list[tuple[int, str]]:
    """Returns (line, command) of each command in the `sh` blocks."""
    found = []
    for block in BLOCK.finditer(text):
        first = line_of(text, block.start(1))
        for offset, line in enumerate(block.group(1).splitlines()):
            command = line.partition("  #")[0]
            if command.strip() and not command.startswith("#"):
                found.append((first + offset, command.strip()))
    return found


def check_commands(root: Path, findings: Findings) -> None:
    table = root / "ci/documented_commands.toml"
    tests = tomllib.loads(table.read_text(encoding="utf-8"))["tests"]
    listed = {command: test for test, run in tests.items() for command in run}
    seen = set()
    for path in documents(root):
        name = path.relative_to(root)
        for line, command in commands(path.read_text(encoding="utf-8")):
            findings.count()
            seen.add(command)
            if command in listed:
                continue
            if command.startswith("./near"):
                run_command(root, name, line, command, findings)
            else:
                findings.fault(name, line, f"no test is listed for `{command}`")
    for command, test in listed.items():
        if command not in seen:
            findings.fault(table.name, 0, f"`{command}` is in no document")
        if not (root / test).is_file():
            findings.fault(table.name, 0, f"there is no {test}, which should test `{command}`")


def run_command(root: Path, name: Path, line: int, command: str, findings: Findings) -> None:
    try:
        result = subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        findings.fault(name, line, f"`{command}` takes over {SECONDS} s: name its test")
        return
    if result.returncode != 0:
        error = result.stderr.strip().splitlines()[-1:] or ["no message"]
        findings.fault(name, line, f"`{command}` ended with {result.returncode}: {error[0]}")


def check_options(root: Path, build: Path, findings: Findings) -> None:
    findings.count()
    if not (root / "ci/near_options.cc").exists():
        print("options: not compared, there is no ci/near_options.cc that prints the table")
        return
    printed = subprocess.run([build / "near-options", "--markdown"], check=True,
                             capture_output=True, text=True).stdout
    written = root / "docs/options.md"
    if not written.exists() or written.read_text(encoding="utf-8") != printed:
        findings.fault("docs/options.md", 0, "is not what near-options --markdown prints")


EXAMPLE = """# Example
```sh
./near help
./near fail
./near demo
cmake --install build/release
```
"""
TABLE = '[tests]\n"tests/none.py" = ["./near demo"]\nnear = ["./near gone"]\n'
EXPECTED = ["`./near fail` ended with 3: broken", "no test is listed for `cmake --install",
            "`./near gone` is in no document", "there is no tests/none.py"]


def self_test() -> int:
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "ci").mkdir()
        (root / "README.md").write_text(EXAMPLE, encoding="utf-8")
        (root / "ci/documented_commands.toml").write_text(TABLE, encoding="utf-8")
        near = root / "near"
        near.write_text('#!/bin/sh\n[ "$1" = help ] || { echo broken >&2; exit 3; }\n',
                        encoding="utf-8")
        near.chmod(0o755)
        check_commands(root, findings)
    seen = "\n".join(findings.faults)
    missing = [fault for fault in EXPECTED if fault not in seen]
    if missing or len(findings.faults) != len(EXPECTED):
        print(f"expected {EXPECTED}, saw {findings.faults}")
    print(f"cases: {findings.checked}")
    return 1 if missing or len(findings.faults) != len(EXPECTED) else 0


def check(build: Path, findings: Findings) -> None:
    check_commands(ROOT, findings)
    check_options(ROOT, build, findings)


if __name__ == "__main__":
    run_on_build(__doc__, "commands and tables", check, self_test)
