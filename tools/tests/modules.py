"""Runs a command of the tools as users do: as a program of its own."""

import os
import subprocess
import sys
from pathlib import Path


def run_command(
    *words: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`nearmalloc WORD...`, with what it printed. `variables`: more of its environment."""
    return subprocess.run(
        [sys.executable, "-m", "nearmalloc_tools", *words],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
