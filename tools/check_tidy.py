#!/usr/bin/env python3
"""clang-tidy, and with it Clang's own warnings, finds nothing in src/ (.clang-tidy)."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checking import ROOT, Findings, report

TIDY = "clang-tidy-19"
FAULT = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)


def tidy(build: Path, file: Path) -> str:
    rules = f"--config-file={ROOT / '.clang-tidy'}"
    command = [TIDY, "--quiet", rules, "-p", str(build), str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    output = result.stdout
    if result.returncode != 0 and not FAULT.search(output):
        output += f"{file}:0:0: error: {result.stderr.strip()}\n"
    return output


def check_files(build: Path, files: list[Path], findings: Findings) -> None:
    findings.count(len(files))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda file: tidy(build, file), files))
    # A header's fault shows in every file that includes it.
    for path, line, message in sorted({found for each in outputs for found in FAULT.findall(each)}):
        findings.fault(path, int(line), message)


def compiled_sources(build: Path) -> list[Path]:
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = {Path(command["file"]) for command in commands}
    return sorted(file for file in files if file.is_relative_to(ROOT / "src"))


def without_gcc_flags(build: Path, folder: Path) -> Path:
    """A copy of the compile commands without the flags that Clang does not know."""
    text = (build / "compile_commands.json").read_text(encoding="utf-8")
    (folder / "compile_commands.json").write_text(re.sub(r" -fira-\S+", "", text), encoding="utf-8")
    return folder


def self_test() -> int:
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "wrong.cc")
        source.write_text("int f(int Bad) { return Bad; }\n", encoding="utf-8")
        command = {"directory": folder, "file": str(source), "command": f"c++ -c {source}"}
        Path(folder, "compile_commands.json").write_text(json.dumps([command]), encoding="utf-8")
        check_files(Path(folder), [source], findings)
    print("cases: 1")
    return 0 if any("readability-identifier-naming" in fault for fault in findings.faults) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true", help="check the check on known faults")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        commands = without_gcc_flags(arguments.build, Path(folder))
        check_files(commands, compiled_sources(arguments.build), findings)
    return report("files", findings)


if __name__ == "__main__":
    sys.exit(main())
