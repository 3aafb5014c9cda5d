"""The allocators that are measured: where each library is, its version, or why it is missing.

Invariant: a missing allocator is a recorded reason, never an exception; a version is what the
loaded library itself says. The peers are those that Debian and the Python index package.
"""

import ctypes
import functools
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import measure, places

_DEBIAN_LIBRARIES = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "")
_MIMALLOC3_REQUIREMENT = "cmeel-mimalloc==3.4.*"


@dataclass(frozen=True, slots=True)
class Allocator:
    """What to preload (nothing for glibc), or why it cannot be measured."""

    name: str
    label: str
    library: Path | None
    version: str
    missing: str | None = None

    @property
    def available(self) -> bool:
        return self.missing is None

    def to_json(self) -> dict:
        library = None if self.library is None else str(self.library)
        return {"name": self.name, "library": library, "version": self.version} | (
            {"missing": self.missing} if self.missing else {}
        )


@dataclass(frozen=True, slots=True)
class _Source:
    label: str
    find: Callable[[], Path | None]
    version: str  # an expression over `loaded`, evaluated inside a process it serves
    debian_package: str | None
    get: str  # what to do when it is missing


def _debian(name: str) -> Callable[[], Path | None]:
    return lambda: next((p for p in [_DEBIAN_LIBRARIES / name] if p.exists()), None)


def _mimalloc3() -> Path | None:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for folder in sorted(folders):
        library = Path(folder) / "cmeel.prefix" / "lib" / "libmimalloc.so"
        if library.exists():
            return library
    return None


def _nearmalloc() -> Path | None:
    library = places.nearmalloc_library()
    return library if library.exists() else None


_SOURCES = {
    "nearmalloc": _Source(
        "nearmalloc", _nearmalloc, "_text('near_version')", None, "build it with `./near build`"
    ),
    "mimalloc3": _Source(
        "mimalloc 3",
        _mimalloc3,
        "_mimalloc()",
        None,
        f"pip install '{_MIMALLOC3_REQUIREMENT}' in this environment",
    ),
    "mimalloc2": _Source(
        "mimalloc 2",
        _debian("libmimalloc.so.2"),
        "_mimalloc()",
        "libmimalloc2.0",
        "apt-get install libmimalloc2.0",
    ),
    "jemalloc": _Source(
        "jemalloc",
        _debian("libjemalloc.so.2"),
        "_jemalloc()",
        "libjemalloc2",
        "apt-get install libjemalloc2",
    ),
    "tcmalloc": _Source(
        "gperftools",
        _debian("libtcmalloc_minimal.so.4"),
        "_tcmalloc()",
        "libtcmalloc-minimal4",
        "apt-get install libtcmalloc-minimal4",
    ),
}
NAMES = ("glibc", *_SOURCES)


def find(name: str) -> Allocator:
    """One allocator by name (see NAMES)."""
    if name == "glibc":
        version = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")
        return Allocator("glibc", "glibc", None, version)
    if name not in _SOURCES:
        raise KeyError(f"unknown allocator {name}; there are {', '.join(NAMES)}")
    source = _SOURCES[name]
    library = source.find()
    if library is None:
        return Allocator(name, source.label, None, "", f"not found: {source.get}")
    version, problem = _ask_version(library, source.version)
    return Allocator(name, source.label, library, version, problem)


def find_all(names: Sequence[str] = NAMES) -> list[Allocator]:
    return [find(name) for name in names]


def ensure(names: Sequence[str] = NAMES) -> list[Allocator]:
    """As `find_all`, after trying to install what is missing (as root; in a venv)."""
    lacking = [name for name in names if name in _SOURCES and _SOURCES[name].find() is None]
    packages = [_SOURCES[n].debian_package for n in lacking if _SOURCES[n].debian_package]
    if packages and os.geteuid() == 0:
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        apt = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq"]
        _attempt([*apt, "update"], quiet)
        _attempt([*apt, "install", "-y", "--no-install-recommends", *packages], quiet)
    if "mimalloc3" in lacking and sys.prefix != sys.base_prefix:
        _attempt([sys.executable, "-m", "pip", "install", "-q", _MIMALLOC3_REQUIREMENT], {})
    return find_all(names)


def _attempt(command: list[str], env: dict[str, str]) -> None:
    """Runs an installer. Its failure is no error here: what stays missing is reported so."""
    try:
        subprocess.run(
            command,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        pass


@functools.cache
def _ask_version(library: Path, expression: str) -> tuple[str, str | None]:
    """(version, None), or ("", why the library does not work), from a process that it serves."""
    script = f"from nearlab import peers; print(peers.{expression})"
    served = {"LD_PRELOAD": str(library), "PYTHONPATH": str(places.ROOT / "lab")}
    try:
        result = subprocess.run(
            [sys.executable, "-c", script],
            env=measure.child_environment(served),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"{library.name} hangs when preloaded"
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return "", f"{library.name} does not work when preloaded: {reason[:120]}"
    return result.stdout.strip(), None


def _text(function: str) -> str:
    call = getattr(ctypes.CDLL(None), function)
    call.restype = ctypes.c_char_p
    return call().decode()


def _mimalloc() -> str:
    """mi_version is 209 for 2.0.9 and 30403 for 3.4.3: one digit a part became two."""
    number = ctypes.CDLL(None).mi_version()
    base = 10 if number < 1000 else 100
    return f"{number // base**2}.{number // base % base}.{number % base}"


def _tcmalloc() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    patch = ctypes.c_char_p()
    version = ctypes.CDLL(None).tc_version
    version.restype = ctypes.c_char_p
    version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(patch))
    return f"{major.value}.{minor.value}{(patch.value or b'').decode()}"


def _jemalloc() -> str:
    text, size = ctypes.c_char_p(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_char_p))
    mallctl = ctypes.CDLL(None).mallctl
    if mallctl(b"version", ctypes.byref(text), ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return "unknown"
    return (text.value or b"unknown").decode().split("-")[0]
