#!/usr/bin/env python3
"""Public linters pass: ruff on every Python file, mypy on the packages, shellcheck on the shell.

pyproject.toml says what ruff and mypy check. A linter that is not installed is a skipped test.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from checking import ROOT, SKIPPED, Example, Findings, run

SKIPPED_FOLDERS = {"build", ".git", "__pycache__"}
RUFF, MYPY = (str(Path(sys.executable).parent / name) for name in ("ruff", "mypy"))
CONFIGURATION = str(ROOT / "pyproject.toml")
PACKAGES = (Path("driver/neardriver"), Path("tools/nearmalloc_tools"), Path("lab/nearlab"),
            Path("vm/py/nearvm"), Path("manycore/py/nearmanycore"))


def files(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*"))
            if path.is_file() and not SKIPPED_FOLDERS & set(path.relative_to(root).parts)]


def is_shell(path: Path) -> bool:
    if path.suffix not in {"", ".sh"}:
        return False
    with path.open("rb") as file:
        return file.readline().rstrip().endswith((b"/sh", b" bash", b"/bash", b" sh"))


def lint(root: Path, command: list[str], paths: list[Path], findings: Findings) -> None:
    """Runs the command on the paths; it prints a line `FILE:LINE:...` for each fault."""
    findings.count(len(paths))
    modules = os.pathsep.join(str(root / package.parent) for package in PACKAGES)
    result = subprocess.run([*command, *(str(path.relative_to(root)) for path in paths)], cwd=root,
                            env=os.environ | {"MYPYPATH": modules}, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        findings.faults += (result.stdout + result.stderr).strip().splitlines()


def check(root: Path, findings: Findings) -> None:
    tree = files(root)
    python = [path for path in tree if path.suffix == ".py"]
    shell = [path for path in tree if is_shell(path)]
    if python:
        lint(root, [RUFF, "check", "--quiet", "--no-cache", "--output-format", "concise",
                    "--config", CONFIGURATION], python, findings)
    packages = [root / package for package in PACKAGES if (root / package).is_dir()]
    if packages:
        lint(root, [MYPY, "--no-error-summary", "--cache-dir", str(ROOT / "build" / "mypy"),
                    "--config-file", CONFIGURATION], packages, findings)
    if shell:
        lint(root, ["shellcheck", "--format", "gcc"], shell, findings)


EXAMPLES = [
    Example("right", {"a.py": "import sys\n\nprint(sys.argv)\n", "b": "#!/bin/sh\necho \"$1\"\n"},
            None),
    Example("python", {"a.py": "import sys\n"}, "F401"),
    Example("types", {"lab/nearlab/__init__.py": "",
                      "lab/nearlab/a.py": "def f(x):\n    return x\n"}, "no-untyped-def"),
    Example("shell", {"b": "#!/usr/bin/env bash\nrm $1\n"}, "SC2086"),
]

if __name__ == "__main__":
    for linter in (RUFF, MYPY, "shellcheck"):
        if shutil.which(linter) is None:
            print(f"{linter} is not installed")
            sys.exit(SKIPPED)
    run(__doc__, "files", check, EXAMPLES)
