"""apt-get. Its output goes to build/logs/apt.log, its time counts as a download."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from neardriver import paths
from neardriver.seconds import SECONDS

_OPTIONS = ("-o", "DPkg::Lock::Timeout=600", "-o", "Acquire::Retries=3")


def is_here() -> bool:
    return shutil.which("apt-get") is not None


def run(*words: str, folder: Path | None = None) -> bool:
    """Whether apt-get succeeded."""
    with SECONDS.download("apt"), paths.log("apt").open("ab") as log:
        done = subprocess.run(["apt-get", *_OPTIONS, *words], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=log, stderr=log, check=False,
                              env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})
    return done.returncode == 0


def install(names: Sequence[str]) -> bool:
    return run("install", "-y", "--no-install-recommends", *names)


def last_lines(count: int) -> str:
    lines = paths.log("apt").read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-count:])
