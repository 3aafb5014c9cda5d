"""Build trees: their presets, what each needs, and which tests are in which tree.

Invariant: this table is the only place that lists them beside CMakePresets.json.
"""

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Tree:
    """A preset of CMakePresets.json. Its tests need packages, CMake definitions and a target."""

    purposes: tuple[str, ...] = ()  # Debian packages beyond those of `build` and `tests`
    definitions: tuple[str, ...] = ()
    target: str = "all"
    seconds_per_step: float = 1.5  # typical processor seconds of one step of ninja


TREES = {
    "release": Tree(definitions=("NEAR_LAB=ON",), purposes=("lab",)),
    "check": Tree(),
    "asan": Tree(purposes=("clang",), seconds_per_step=2.5),
    "ubsan": Tree(seconds_per_step=2.0),
    "tsan": Tree(seconds_per_step=2.5),
    "clang": Tree(purposes=("clang",)),
    "manycore": Tree(purposes=("lab",), definitions=("NEAR_LAB=ON",), target="manycore_tests",
                     seconds_per_step=2.0),
    "aarch64": Tree(purposes=("aarch64",), seconds_per_step=2.0),
}
_X86_64_ONLY = {"manycore", "aarch64"}

DEFAULT_TIER = ("release",)
_EVERYTHING = ("release", "asan", "tsan", "manycore", "aarch64")
_OF_LABEL = {
    "core": ("release", "asan", "tsan", "aarch64"),
    "lint": ("release",),
    "lab": ("release",),
    "tools": ("release",),
    "driver": ("release",),
    "reclaim": ("release", "asan", "tsan"),
    "designs": ("release", "asan", "tsan"),
    "numa": ("release",),
    "numa-matrix": ("release",),
    "manycore": ("manycore",),
    "programs": ("release",),
    "soak": ("release", "asan"),
}
LABELS = tuple(_OF_LABEL)


def _possible(names: tuple[str, ...]) -> tuple[str, ...]:
    if platform.machine() == "x86_64":
        return names
    return tuple(name for name in names if name not in _X86_64_ONLY)


def everything() -> tuple[str, ...]:
    """The trees of `./near test all`."""
    return _possible(_EVERYTHING)


def of_label(label: str) -> tuple[str, ...]:
    """The trees that have tests with this label."""
    return _possible(_OF_LABEL[label])
