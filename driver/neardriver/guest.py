"""The NUMA machine's guest: build/vm has its kernel and its shell.

Both come from Debian packages, which are unpacked and not installed.
"""

import fnmatch
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from neardriver import apt, locks, paths
from neardriver.messages import Misuse, say

_KERNEL = "boot/vmlinuz-*"
_SHELL = "*bin/busybox"  # in /bin or, since Debian 13, in /usr/bin
_METAPACKAGE = "linux-image-cloud-amd64"


def need() -> None:
    """Effect: build/vm has the guest's kernel and its shell."""
    if platform.machine() != "x86_64":
        raise Misuse("the NUMA machine's guests are for x86-64")
    if is_unpacked("kernel", _KERNEL) and is_unpacked("busybox", _SHELL):
        return
    if not apt.is_here() or shutil.which("dpkg-deb") is None:
        raise Misuse(f"missing: apt-get and dpkg-deb, which get {_METAPACKAGE} and busybox-static")
    with locks.hold(locks.PACKAGES):
        kernel = kernel_package()
        if not kernel and os.geteuid() == 0:
            apt.run("update")
            kernel = kernel_package()
        if not kernel:
            raise Misuse(f"apt knows no package {_METAPACKAGE}: sudo apt-get update")
        _unpack("kernel", _KERNEL, kernel)
        _unpack("busybox", _SHELL, "busybox-static")


def want() -> None:
    try:
        need()
    except Misuse as problem:
        say(str(problem))
        say("going on without the NUMA machine")


def is_unpacked(name: str, pattern: str) -> bool:
    """Whether a path in the folder matches; a * matches slashes, too."""
    folder = paths.BUILD / "vm" / name
    return any(fnmatch.fnmatchcase(str(path.relative_to(folder)), pattern)
               for path in folder.rglob("*"))


def kernel_package() -> str:
    """The kernel package on which Debian's metapackage depends; empty if apt knows none."""
    said = subprocess.run(["apt-cache", "depends", "--important", _METAPACKAGE],
                          capture_output=True, text=True, check=False).stdout
    found = re.search(r"^ *Depends: (\S+)", said, re.MULTILINE)
    return found[1] if found else ""


def _unpack(name: str, pattern: str, package: str) -> None:
    if is_unpacked(name, pattern):
        return
    say(f"unpacking {package} into build/vm")
    folder, downloads = paths.BUILD / "vm" / name, paths.BUILD / "vm" / "packages"
    for each in (folder, downloads):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    if not apt.run("download", package, folder=downloads):
        print(apt.last_lines(5), file=sys.stderr)
        raise Misuse(f"apt-get cannot download {package} (see build/logs/apt.log)")
    (archive,) = downloads.glob("*.deb")
    if not _extract(archive, folder, pattern):
        raise Misuse(f"{package} does not hold {pattern}")
    shutil.rmtree(downloads)


def _extract(archive: Path, folder: Path, pattern: str) -> bool:
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as deb:
        done = subprocess.run(["tar", "-x", "-C", folder, "--wildcards", f"./{pattern}"],
                              stdin=deb.stdout, check=False)
    return done.returncode == 0 and deb.returncode == 0
