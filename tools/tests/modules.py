"""Runs a command of the tools as `./near` does: as a program of its own."""

import subprocess
import sys
from pathlib import Path


def run_module(
    name: str, *words: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The module `nearmalloc_tools.NAME`, with what it printed."""
    return subprocess.run(
        [sys.executable, "-m", f"nearmalloc_tools.{name}", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
