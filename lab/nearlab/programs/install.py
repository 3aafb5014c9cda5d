"""Installs the packages of a real program: by apt-get as root; otherwise the program is skipped.

Invariant: no installed package starts a service, now or at the next boot. During the installation a
policy denies that, unless the machine has a policy of its own. Afterwards this module removes the
policy and the links that would start a new service at boot. The driver uses this.
Source: Debian's /usr/share/doc/init-system-helpers/README.policy-rc.d.gz.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from nearlab.programs.base import Program

POLICY = Path("/usr/sbin/policy-rc.d")
UNITS = Path("/etc/systemd/system")
_APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")


def provide(program: Program) -> str | None:
    """Installs what `program` lacks. Returns None, or why the program must be skipped."""
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
    """Returns the last line of apt-get's errors, or `no error`."""
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
    """Within this context no package starts a service. A policy of the machine's own stays."""
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
    """Disables, at its end, the services that were enabled within this context."""
    before = set(units.glob("*.wants/*.service"))
    try:
        yield
    finally:
        for link in set(units.glob("*.wants/*.service")) - before:
            link.unlink(missing_ok=True)
