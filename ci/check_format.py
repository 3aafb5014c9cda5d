#!/usr/bin/env python3
"""Every C and C++ file is formatted by clang-format (.clang-format); --fix rewrites the others."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from checking import ROOT, Findings, report, sources

FORMATTER = "clang-format-19"
FOLDERS = ("common", "malloc", "include", "reclaim", "designs", "tests", "tools", "lab", "numa")
SUFFIXES = (".h", ".hpp", ".cc", ".c")


def check_files(files: list[Path], findings: Findings) -> None:
    findings.count(len(files))
    style = f"--style=file:{ROOT / '.clang-format'}"
    result = subprocess.run([FORMATTER, style, "--dry-run", "-Werror", "--ferror-limit=1", *files],
                            capture_output=True, text=True, check=False)
    for line in result.stderr.splitlines():
        if ": error:" in line:
            place = line.split(": error:")[0].split(":")
            findings.fault(place[0], int(place[1]), "not formatted (ci/check_format.py --fix)")
    if result.returncode != 0 and not findings.faults:
        findings.fault(FORMATTER, 0, result.stderr.strip())


def self_test() -> int:
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        right, wrong = Path(folder, "right.cc"), Path(folder, "wrong.cc")
        right.write_text("int f() { return 1; }\n", encoding="utf-8")
        wrong.write_text("int f( ){return 1 ;}\n", encoding="utf-8")
        check_files([right, wrong], findings)
    print("cases: 2")
    return 0 if len(findings.faults) == 1 and "wrong.cc" in findings.faults[0] else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--self-test", action="store_true", help="check the check on known faults")
    parser.add_argument("--fix", action="store_true", help="rewrite the files")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    files = list(sources(ROOT, *FOLDERS, suffixes=SUFFIXES))
    if arguments.fix:
        return subprocess.run([FORMATTER, "-i", *files], check=False).returncode
    findings = Findings()
    check_files(files, findings)
    return report("files", findings)


if __name__ == "__main__":
    sys.exit(main())
