#!/usr/bin/env python3
"""clang-tidy, which includes Clang's own warnings, finds no fault in the libraries (.clang-tidy).

Public names of the reclamation library are lower case, like the standard library's.
"""

import json
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checking import ROOT, Findings, run_on_build

TIDY = "clang-tidy-19"
FAULT = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)

PUBLIC = "include/nearmalloc/reclaim"
LIKE_STANDARD = re.compile(r"invalid case style for (?:\w+ )+'[a-z][a-z0-9_]*' "
                           r"\[readability-identifier-naming")


def tidy(build: Path, file: Path) -> str:
    rules = f"--config-file={ROOT / '.clang-tidy'}"
    command = [TIDY, "--quiet", rules, "-p", str(build), str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    output = result.stdout
    if result.returncode != 0 and not FAULT.search(output):
        output += f"{file}:0:0: error: {' '.join((output + result.stderr).split())}\n"
    return output


def check_files(build: Path, files: list[Path], findings: Findings) -> None:
    findings.count(len(files))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda file: tidy(build, file), files))
    # clang-tidy reports a header's fault for every file that includes it.
    for path, line, message in sorted({found for each in outputs for found in FAULT.findall(each)}):
        if PUBLIC not in path or not LIKE_STANDARD.search(message):
            findings.fault(path, int(line), message)


def library_commands(build: Path) -> list[dict[str, str]]:
    """Returns the libraries' compile commands, without the flags that Clang does not know.

    Their objects are in the build's own CMakeFiles. A subfolder that compiles a source again
    (tests/model) compiles other code, because it uses the model checker's headers.
    """
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return [{**command, "command": re.sub(r" -fira-\S+", "", command["command"])}
            for command in commands if " -o CMakeFiles/" in command["command"]]


def check_sources(root: Path, build: Path, findings: Findings) -> None:
    commands = library_commands(build)
    compiled = {Path(command["file"]) for command in commands}
    sources = [source for folder in ("common", "malloc", "reclaim")
               for source in sorted((root / folder).rglob("*.cc"))]
    for source in sources:
        if source not in compiled:
            findings.fault(source, 0, "no library is compiled from it")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
        check_files(Path(folder), [each for each in sources if each in compiled], findings)


def self_test() -> int:
    """Expects that it finds a fault and a file not compiled, and ignores a second compilation."""
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "malloc").mkdir()
        (root / "malloc/forgotten.cc").write_text("", encoding="utf-8")
        source = root / "malloc/wrong.cc"
        source.write_text("int f(int Bad) { return Bad; }\n#ifdef AGAIN\n#error seen\n#endif\n",
                          encoding="utf-8")
        compilers = ("c++ -fira-algorithm=priority -o CMakeFiles/wrong.o",
                     "c++ -DAGAIN -o tests/CMakeFiles/wrong.o")
        commands = [{"directory": folder, "file": str(source), "command": f"{each} -c {source}"}
                    for each in compilers]
        (root / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
        check_sources(root, root, findings)
    seen = "\n".join(findings.faults)
    wanted = ("wrong.cc:1: invalid case style", "forgotten.cc: no library")
    right = all(each in seen for each in wanted) and len(findings.faults) == len(wanted)
    if not right:
        print(seen)
    print(f"cases: {len(wanted) + 1}")
    return 0 if right else 1


def check(build: Path, findings: Findings) -> None:
    check_sources(ROOT, build, findings)


if __name__ == "__main__":
    run_on_build(__doc__, "files", check, self_test)
