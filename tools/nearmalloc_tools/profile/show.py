"""`nearmalloc profile show FILE`: the page of a profile that the library wrote earlier."""

from pathlib import Path

from nearmalloc_tools.errors import Refused
from nearmalloc_tools.profile.browser import offer
from nearmalloc_tools.profile.command import write
from nearmalloc_tools.profile.leaked import Leaked
from nearmalloc_tools.profile.profile import read

_NOT_LOOKED = (
    "a profile alone does not say what the process could reach; nearmalloc leaks looks for them"
)


def show(file: Path, out: Path, open_page: bool | None) -> None:
    """Writes the page of a profile, and opens it."""
    try:
        found = read(file)
    except ValueError as error:
        raise Refused(str(error)) from error
    write(found, Leaked(unknown=_NOT_LOOKED), f"Memory of process {found.summary['pid']}", out)
    offer(out, open_page)
