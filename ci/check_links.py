#!/usr/bin/env python3
"""The two shared libraries have the right dependencies, static TLS and exported names.

Each needs only libc.so.6, has its SONAME, no IFUNC, at most 64 bytes of static TLS, and exports
exactly the names of its version script; the api library exports only near_* names.
"""

import re
import subprocess
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

from checking import ROOT, Findings, run_on_build

ALLOWED_NEEDS = re.compile(r"libc\.so\.6|ld-linux.*\.so\.\d")
TLS_BYTES = 64
LIBRARIES = {"libnearmalloc.so": "nearmalloc.map", "libnearmalloc-api.so": "nearmalloc-api.map"}


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def named_in(script: str) -> set[str]:
    """Returns the names and patterns after `global:` of a version script."""
    script = re.sub(r"/\*.*?\*/|#[^\n]*|//[^\n]*", "", script, flags=re.DOTALL)
    names: set[str] = set()
    for part in re.findall(r"global:(.*?)(?=local:|\})", script, re.DOTALL):
        names.update(name.strip().strip('"') for name in re.split(r"[;{}]", part) if name.strip())
    return names


def exported_by(library: Path) -> tuple[set[str], set[str]]:
    """Returns the exported names, without the versions' own symbols, and the IFUNCs among them."""
    names, indirect = set(), set()
    for line in output_of("nm", "-D", "--defined-only", str(library)).splitlines():
        _, kind, name = line.split()
        if kind == "A":
            continue
        names.add(name.split("@")[0])
        if kind == "i":
            indirect.add(name)
    return names, indirect


def check_library(library: Path, script: Path, findings: Findings) -> None:
    dynamic = output_of("readelf", "-dW", str(library))
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        findings.count()
        if not ALLOWED_NEEDS.fullmatch(needed):
            findings.fault(library.name, 0, f"needs {needed}")

    findings.count()
    wanted = re.escape(library.name) + r"\.\d+"
    soname = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)
    if not soname or not re.fullmatch(wanted, soname.group(1)):
        findings.fault(library.name, 0, f"SONAME is {soname.group(1) if soname else 'missing'}")

    findings.count()
    for line in output_of("readelf", "-lW", str(library)).splitlines():
        if line.split()[:1] == ["TLS"] and int(line.split()[5], 16) > TLS_BYTES:
            findings.fault(library.name, 0, f"{int(line.split()[5], 16)} bytes of static TLS")

    names, indirect = exported_by(library)
    patterns = named_in(script.read_text(encoding="utf-8"))
    findings.count(len(names) + 1)
    for name in sorted(indirect):
        findings.fault(library.name, 0, f"{name} is an IFUNC")
    for name in sorted(names):
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            findings.fault(library.name, 0, f"exports {name}, which {script.name} does not name")
        if "-api" in library.name and not name.startswith("near_"):
            findings.fault(library.name, 0, f"exports {name}: only near_* belongs there")
    for pattern in sorted(patterns):
        if not any(fnmatchcase(name, pattern) for name in names):
            findings.fault(script.name, 0, f"names {pattern}, which nothing exports")


BROKEN = """
#include <math.h>
__thread char big[100];
static int one(void) { return 1; }
static int (*pick(void))(void) { return one; }
int near_pick(void) __attribute__((ifunc("pick")));
double malloc(double x) { big[(int)x] = 1; return sin(x); }
"""
EXPECTED = ["needs libm.so.6", "SONAME is missing", "static TLS", "near_pick is an IFUNC",
            "only near_* belongs there", "names near_version, which nothing exports",
            "which nearmalloc-api.map does not name"]


def self_test() -> int:
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "broken.c"), Path(folder, "libnearmalloc-api.so")
        source.write_text(BROKEN, encoding="utf-8")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-fno-builtin", str(source), "-o",
                        str(library), "-Wl,--no-as-needed", "-lm"], check=True)
        script = Path(folder, "nearmalloc-api.map")
        script.write_text("X { global: near_pick; near_version; local: *; };\n", encoding="utf-8")
        check_library(library, script, findings)
    seen = "\n".join(findings.faults)
    missing = [fault for fault in EXPECTED if fault not in seen]
    for fault in missing:
        print(f"a broken library did not give {fault!r}; seen:\n{seen}")
    print(f"cases: {len(EXPECTED)}")
    return 1 if missing else 0


def check(build: Path, findings: Findings) -> None:
    for name, script in LIBRARIES.items():
        check_library(build / name, ROOT / "malloc/shim" / script, findings)


if __name__ == "__main__":
    run_on_build(__doc__, "facts", check, self_test)
