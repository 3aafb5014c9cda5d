"""Asks a library for its version, in a process that it serves.

Invariant: a library that crashes, hangs or refuses when preloaded is a reason, not an exception.
The functions with an argument-free call run in that process, where the library is preloaded.
"""

import ctypes
import functools
import re
import subprocess
import sys
from pathlib import Path

import nearlab
from nearlab.measure import measure

NONE = "-"  # the expression of a library without a version: the process lives, or does not


@functools.cache
def ask(
    library: Path, expression: str, environment: tuple[tuple[str, str], ...] = ()
) -> tuple[str, str | None]:
    """(version, None), or ("", why the library does not work)."""
    script = f"from nearlab.peers import versions; print(versions.{expression})"
    served = {"LD_PRELOAD": str(library), "PYTHONPATH": str(Path(nearlab.__file__).parents[1])}
    command = ["echo", "-"] if expression == NONE else [sys.executable, "-c", script]
    try:
        result = subprocess.run(
            command,
            env=measure.child_environment(served | dict(environment)),
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
    if complaint := re.search(r"^nearmalloc: \S+: (.*)", result.stderr, re.MULTILINE):
        return "", f"{library.name}: {complaint[1]}"  # the design's message about an unknown switch
    return result.stdout.strip(), None


def text(function: str) -> str:
    """The version of a library that has a function for it."""
    call = getattr(ctypes.CDLL(None), function)
    call.restype = ctypes.c_char_p
    found: bytes = call()
    return found.decode()


def mimalloc() -> str:
    """mi_version is 209 for 2.0.9 and 30403 for 3.4.3: one digit a part became two."""
    number = ctypes.CDLL(None).mi_version()
    base = 10 if number < 1000 else 100
    return f"{number // base**2}.{number // base % base}.{number % base}"


def tcmalloc() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    patch = ctypes.c_char_p()
    version = ctypes.CDLL(None).tc_version
    version.restype = ctypes.c_char_p
    version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(patch))
    return f"{major.value}.{minor.value}{(patch.value or b'').decode()}"


def jemalloc() -> str:
    found, size = ctypes.c_char_p(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_char_p))
    mallctl = ctypes.CDLL(None).mallctl
    if mallctl(b"version", ctypes.byref(found), ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return "unknown"
    return (found.value or b"unknown").decode().split("-")[0]


def tbb() -> str:
    """Only the text of the library that the proxy loads contains the version."""
    maps = Path("/proc/self/maps").read_text()
    loaded = re.search(r"/\S*/libtbbmalloc\.so\S*", maps)
    found = loaded and re.search(rb"TBBmalloc: VERSION\s+([\d.]+)", Path(loaded[0]).read_bytes())
    return found[1].decode() if found else "unknown"
