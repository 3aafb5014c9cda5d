"""The allocators that the user chose: listed names, designs with switches, or NAME=LIBRARY for the
user's own.

Invariant: choices are checked before anything runs, and an error names the wrong one. A library
that does not exist gives a missing allocator with a reason. Plans and the command line use this.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nearlab import peers
from nearlab.peers import Allocator


def problem(choices: Sequence[str]) -> str | None:
    """Returns the first error in a list of choices, or None."""
    for choice in choices:
        name, own, path = choice.partition("=")
        if own and (not name or not path or name in peers.NAMES):
            return f"{choice!r} is not NAME=LIBRARY with a name of its own"
        if not own and not peers.is_name(name):
            others = "NAME+SWITCH:VALUE, and NAME=LIBRARY"
            return f"unknown {name!r}; there are: {', '.join(peers.NAMES)}, {others}"
    for name, count in Counter(map(name_of, choices)).items():
        if count > 1:
            return f"{name!r} is given {count} times"
    return None


def split(names: str) -> tuple[str, ...]:
    """The choices of a list with commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def missing_library(choices: Sequence[str]) -> str | None:
    """Names the first library of the user's own that is not there."""
    for choice in choices:
        _, own, path = choice.partition("=")
        if own and not Path(path).is_file():
            return f"{choice!r}: there is no file {Path(path).absolute()}"
    return None


def name_of(choice: str) -> str:
    return choice.partition("=")[0]


def find(choices: Sequence[str]) -> list[Allocator]:
    """Returns the allocators in order. It installs or builds listed ones if possible."""
    listed = [choice for choice in choices if "=" not in choice]
    found = {one.name: one for one in (peers.ensure(listed) if listed else ())}
    return [found[choice] if choice in found else _own(choice) for choice in choices]


def _own(choice: str) -> Allocator:
    name, _, path = choice.partition("=")
    library = Path(path).resolve()
    missing = None if library.is_file() else f"{library} is not there"
    found = None if missing else library
    settings = peers.switched(name)[1]
    return Allocator(name, name, found, "", missing, f"{library}", "ours", settings)
