"""Commands whose options belong to another program: what each needs before it starts.

Invariant: help, lists and reports build nothing and take no lock, unless Python packages are
missing.
"""

import platform
from collections.abc import Sequence
from typing import NoReturn

from neardriver import groups, guest, packages, products, programs
from neardriver.messages import Misuse, say

_HELP = {"--help", "-h"}
_SIMULATING = {"run", "plan", "goals", "validate"}
_IN_GUESTS = {"run", "plan"}
_READING = {"report", "sweep-summary", "compare", "tables", "timeline"}  # results that exist


def _asks_help(words: Sequence[str]) -> bool:
    """Whether the words before `--` ask for help."""
    own = words[: words.index("--")] if "--" in words else words
    return bool(_HELP.intersection(own))


def read_memory(name: str, words: Sequence[str]) -> NoReturn:
    """A tool that reads processes or core files from outside."""
    if not _asks_help(words):
        groups.need("tools")
    programs.tool([name, *words])


def profile(words: Sequence[str]) -> NoReturn:
    if not _asks_help(words):
        groups.need("tools")
        if words[:1] not in (["diff"], ["show"]):
            products.build_library()
    programs.tool(["profile", *words], products.LIBRARY)


def lab(words: Sequence[str]) -> NoReturn:
    """The bootstrap has answered what needs nothing (nearlab/preflight.py)."""
    groups.need("tools", "lab")
    if not _asks_help(words) and not _READING.intersection(words[:1]):
        packages.need("build", "lab")
        packages.want("counting", "anchors")
        packages.add_links_to_path()
        if words[:1] == ["pictures"]:
            packages.want("browser")
            groups.need("browser")
        groups.want("peers")
        products.build_lab()
    programs.lab(words)


def demo(words: Sequence[str]) -> NoReturn:
    """The short demo needs no Python package beyond the driver's."""
    if not _asks_help(words):
        is_long = "--long" in words
        if not is_long:
            say("the demo takes at most 5 minutes: 2 to install and build what is missing, then 3")
        packages.need("build", "lab")
        packages.add_links_to_path()
        if is_long:
            groups.need("tools", "lab")
            products.build_lab()
        else:
            products.build_demo()
    programs.demo(words)


def manycore(words: Sequence[str]) -> NoReturn:
    if platform.machine() != "x86_64":
        raise Misuse("the simulated machine is for x86-64")
    groups.need("tools", "lab")
    command = words[0] if words and not _asks_help(words) else ""
    if command == "calibrate":
        packages.need("build")
    if command in _SIMULATING:
        packages.need("build", "lab")
        groups.want("peers")
        products.build_simulator()
    if command == "validate":
        products.build_lab()
    programs.simulator(words)


def vm(words: Sequence[str]) -> NoReturn:
    groups.need("tools", "lab")
    command = words[0] if words and not _asks_help(words) else ""
    if command in _IN_GUESTS:
        packages.need("build", "lab", "vm")
        if command == "plan":
            packages.want("peers")
        groups.want("peers")
        guest.need()
        products.build_lab()
    programs.machine(words)
