"""Where the NUMA machine's files are: what comes with it, what is built for it, what it keeps."""

import os
from pathlib import Path

from nearlab import places

_MACHINE = places.ROOT / "vm"


def topologies() -> Path:
    """The machines of ./near vm. What they run is beside them."""
    return _MACHINE / "topologies"


def cases() -> Path:
    return _MACHINE / "cases"


def plans() -> Path:
    return _MACHINE / "plans"


def guest() -> Path:
    """The scripts that become part of a guest."""
    return _MACHINE / "guest"


def program(name: str) -> Path:
    """A program that is written for the guest, or the library that counts there."""
    return places.lab_build().parent / "numa" / name


def files() -> Path:
    """The guest's kernel and shell, and the verdicts. NEAR_VM names another place."""
    return Path(os.environ.get("NEAR_VM", places.ROOT / "build" / "vm"))
