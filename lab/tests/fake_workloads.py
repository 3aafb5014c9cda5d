"""A lab with workloads of the tests' own: shell scripts that succeed, crash, hang or lie.

Invariant: each accepts --help and --size as a real workload does, and reports in the same form.
Thread-safety: one thread, in the tests of plans and of the driver.
"""

import os
from pathlib import Path

from nearlab import places

HEAD = """#!/bin/sh
[ "$1" = --help ] && { echo "pretends to work"; echo "  -h,--help  Print this"
  echo "  --preset TEXT  which"; echo "  --size UINT=64  bytes"; echo "  --threads UINT  so many"
  [ "${0##*/}" = recorder ] && echo "  --timeline TEXT  file"
  exit 0; }
report() { printf '{"name": "fake", "seconds": 0.5, "operations": 100, "checksum": "%s",
 "verified": %s, "malloc_from": "%s", "limit": %s, "malloc_ns": {"p50": 20, "samples": 3}}' \\
 "$1" "${2:-true}" "${LD_PRELOAD:-LIBC}" "${LIMIT_MIB:-0}" | tr -d '\\n'; echo; }
"""
SCRIPTS = {
    "steady": "report cafe",
    "other": "report cafe",
    "slow": "sleep 0.2; report cafe",
    "first-gate": 'while [ -e "$GATES/first-gate" ]; do sleep 0.01; done; report cafe',
    "second-gate": 'while [ -e "$GATES/second-gate" ]; do sleep 0.01; done; report cafe',
    "crash": "kill -SEGV $$",
    "hang": "sleep 100; report cafe",
    "overlap": "report cafe false; exit 3",
    "moody": 'report "$$"',  # each run has another checksum
    "silent": "true",
    "liar": "LD_PRELOAD=/usr/lib/other.so; report cafe",
    "preloaded": '[ -n "$LD_PRELOAD" ] && exit 7; report cafe',  # fails except under glibc
    "recorder": 'for word; do [ "$last" = --timeline ] && echo "$@" > "$word"; last=$word; done; '
    "report cafe",
    "arguments": 'echo "$@" >&2; exit 9',
}


def build(folder: Path) -> Path:
    """Makes the lab's folder: fake workloads, real tools. Returns it, for NEAR_LAB_BUILD."""
    (folder / "workloads").mkdir(parents=True)
    os.symlink(places.bench_dir().resolve(), folder / "bench")
    libc = next(Path("/lib").glob("*/libc.so.6"))
    for name, script in SCRIPTS.items():
        path = folder / "workloads" / name
        path.write_text(HEAD.replace("LIBC", str(libc)) + script + "\n")
        path.chmod(0o755)
    return folder


def plan_text(workloads: str, head: str = "") -> str:
    """A plan of the given [[workload]] tables."""
    keys = {"name": '"try"', "rounds": "2", "allocators": '["glibc", "nearmalloc"]'}
    given = {line.partition("=")[0].strip() for line in head.splitlines()}
    rest = "".join(f"{key} = {value}\n" for key, value in keys.items() if key not in given)
    return f"{head}\n{rest}\n{workloads}\n"


def tables(*programs: str) -> str:
    return "\n".join(f'[[workload]]\nprogram = "{program}"' for program in programs)
