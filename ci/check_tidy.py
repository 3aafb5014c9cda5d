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


INCLUDED = re.compile(r'^#include "(.*\.cc)"$', re.MULTILINE)


def library_commands(build: Path) -> dict[Path, dict[str, str]]:
    """Returns for each source of the libraries its first compile command.

    A unity build compiles a file of #include lines, one for each source of a folder. Clang does not
    know the flags -fira. The objects of the libraries are in the build's own CMakeFiles. A
    subfolder (tests/model) compiles other code from the same source, with the model checker's
    headers.
    """
    commands = {}
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        if " -o CMakeFiles/" not in command["command"]:
            continue
        file = Path(command["file"])
        unity = "Unity" in file.parts
        sources = INCLUDED.findall(file.read_text(encoding="utf-8")) if unity else [file]
        known = {**command, "command": re.sub(r" -fira-\S+", "", command["command"])}
        for source in sources:
            commands.setdefault(Path(source), known)
    return commands


def check_sources(root: Path, build: Path, findings: Findings) -> None:
    commands = library_commands(build)
    sources = [source for folder in ("common", "malloc", "reclaim")
               for source in sorted((root / folder).rglob("*.cc"))]
    for source in sources:
        if source not in commands:
            findings.fault(source, 0, "no library is compiled from it")
    wanted = {commands[source]["file"]: commands[source] for source in sources
              if source in commands}
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(list(wanted.values()))
        Path(folder, "compile_commands.json").write_text(text, encoding="utf-8")
        check_files(Path(folder), [Path(file) for file in wanted], findings)


def self_test() -> int:
    """Expects that it finds two faults, one in a unity build, and a file that is not compiled, and
    ignores a second compilation."""
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        wrong = "int f(int Bad) { return Bad; }\n"
        texts = {"malloc/forgotten.cc": "",
                 "malloc/joined.cc": wrong.replace("f", "g"),
                 "malloc/wrong.cc": wrong + "#ifdef AGAIN\n#error seen\n#endif\n",
                 "Unity/all.cxx": f'#include "{root}/malloc/joined.cc"\n'}
        for name, text in texts.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        commands = [("-fira-algorithm=priority -o CMakeFiles/wrong.o", "malloc/wrong.cc"),
                    ("-DAGAIN -o tests/CMakeFiles/wrong.o", "malloc/wrong.cc"),
                    ("-o CMakeFiles/all.o", "Unity/all.cxx")]
        entries = [{"directory": folder, "file": f"{root}/{file}",
                    "command": f"c++ {flags} -c {root}/{file}"} for flags, file in commands]
        (root / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
        check_sources(root, root, findings)
    seen = "\n".join(findings.faults)
    wanted = ("wrong.cc:1: invalid case style", "joined.cc:1: invalid case style",
              "forgotten.cc: no library")
    right = all(each in seen for each in wanted) and len(findings.faults) == len(wanted)
    if not right:
        print(seen)
    print(f"cases: {len(wanted) + 1}")
    return 0 if right else 1


def check(build: Path, findings: Findings) -> None:
    check_sources(ROOT, build, findings)


if __name__ == "__main__":
    run_on_build(__doc__, "files", check, self_test)
