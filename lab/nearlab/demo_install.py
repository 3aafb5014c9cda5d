"""Gets a program that the demo needs: by apt-get when we are root, else the program is skipped.

Invariant: nothing that is installed starts a service, now or at the next boot. While packages are
installed a policy denies it, unless the machine has a policy of its own; it is removed afterwards,
and so are the links that would start a new service. demo.py and the driver use this.
Source: Debian's /usr/share/doc/init-system-helpers/README.policy-rc.d.gz.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from .programs.base import Program

POLICY = Path("/usr/sbin/policy-rc.d")
UNITS = Path("/etc/systemd/system")
_APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")


def provide(program: Program) -> str | None:
    """Installs what `program` lacks. Returns why it must be skipped, None when all is there."""
    missing = program.missing()
    if not missing:
        return None
    packages = sorted(set(missing.values()))
    what = f"{', '.join(missing)} is missing"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"{what}; as root: apt-get install {' '.join(packages)}"
    error = _install(packages)
    missing = program.missing()
    if missing:
        return f"{', '.join(missing)} is missing and could not be installed: {error}"
    return None


def _install(packages: Sequence[str]) -> str:
    """The last line of what apt-get complained about, `no error` when it did not."""
    with no_services(POLICY), none_at_boot(UNITS):
        subprocess.run(
            [*_APT, "update"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        done = subprocess.run(
            [*_APT, "install", "-y", "--no-install-recommends", *packages],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else "no error"


@contextlib.contextmanager
def no_services(policy: Path) -> Iterator[None]:
    """While this lasts, no package starts a service. A policy that is there already stays."""
    if policy.exists():
        yield
        return
    policy.write_text(
        "#!/bin/sh\n# Temporary: the demo installs programs, not services.\nexit 101\n"
    )
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


@contextlib.contextmanager
def none_at_boot(units: Path) -> Iterator[None]:
    """Services that were enabled while this lasted are not, afterwards."""
    before = set(units.glob("*.wants/*.service"))
    try:
        yield
    finally:
        for link in set(units.glob("*.wants/*.service")) - before:
            link.unlink(missing_ok=True)
