"""The allocators that Debian packages. Invariant: only `install` installs anything."""

import subprocess
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nearlab.peers import installing

LIBRARIES = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "")


@dataclass(frozen=True, slots=True)
class DebianPackage:
    file: str
    package: str

    def find(self) -> Path | None:
        path = LIBRARIES / self.file
        return path if path.exists() else None

    def flags(self) -> str:
        return package_version(self.package)

    def hint(self) -> str:
        return f"not found: apt-get install {self.package}"


def package_version(package: str) -> str:
    """Returns name and version, as `libjemalloc2 5.3.0-1`; empty if dpkg did not install the
    package."""
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}", package]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    state, _, named = done.stdout.strip().partition(" ")  # dpkg may know more packages
    return named if done.returncode == 0 and state == "installed" else ""


def install(sources: Iterable[DebianPackage]) -> None:
    """Tries to install the packages of the allocators that are missing."""
    installing.apt_install([source.package for source in sources if source.find() is None])
