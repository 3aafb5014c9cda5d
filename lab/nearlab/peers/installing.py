"""Runs installers. A failure is no error here: `find` then reports what is missing."""

import os
import subprocess
from collections.abc import Sequence


def attempt(command: Sequence[str], env: dict[str, str] | None = None) -> bool:
    """True if the command succeeded within ten minutes."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def apt_install(packages: Sequence[str]) -> bool:
    """Installs Debian packages; does nothing unless we are root."""
    if not packages or os.geteuid() != 0:
        return False
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq"]
    attempt([*apt, "update"], quiet)
    install = [*apt, "install", "-y", "--no-install-recommends"]
    if attempt([*install, *packages], quiet):
        return True
    # Every package is tried, so that one that fails does not prevent the others.
    return all([attempt([*install, package], quiet) for package in packages])  # noqa: C419
