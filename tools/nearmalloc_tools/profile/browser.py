"""Opens a page in the user's browser, if a user is there to see it."""

import contextlib
import os
import sys
import webbrowser
from collections.abc import Iterator, Mapping
from pathlib import Path

from nearmalloc_tools.errors import say
from nearmalloc_tools.library import callers_environment


def is_seen(variables: Mapping[str, str], terminal: bool, user: int) -> bool:
    """Whether a user sits before a graphical session that is theirs: root may be in another's, and
    a browser of a remote machine is slow."""
    graphical = variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY")
    away = any(variables.get(name) for name in ("CI", "SSH_CONNECTION", "SSH_TTY"))
    return terminal and bool(graphical) and user != 0 and not away


def offer(page: Path, wanted: bool | None) -> None:
    """Opens the page if that is wanted, or if nothing is said and a user sees it. It says so if
    no browser can be started."""
    if wanted is None:
        terminal = sys.stdout is not None and sys.stdout.isatty()
        wanted = page.is_file() and is_seen(os.environ, terminal, os.geteuid())
    if wanted and not _opened(page):
        say("no browser could be started; BROWSER may name one")


def _opened(page: Path) -> bool:
    """Waits for browsers that use the terminal, and for those that BROWSER names without `&`."""
    try:
        with _callers_environment(), _stdout_of_browser():
            return webbrowser.open(page.resolve().as_uri())
    except (webbrowser.Error, OSError, ValueError, IndexError):  # of no use: what BROWSER has
        return False
    except KeyboardInterrupt:  # it ended the browser
        return True


@contextlib.contextmanager
def _callers_environment() -> Iterator[None]:
    """The standard library starts browsers in this program's environment."""
    own, callers = dict(os.environ), callers_environment()
    os.environ.clear()
    os.environ.update(callers)
    try:
        yield
    finally:
        os.environ.update(own)


@contextlib.contextmanager
def _stdout_of_browser() -> Iterator[None]:
    """A browser may use the terminal, but not a pipe or a file that stdout is: there it would add
    lines of its own, and a reader of the pipe would wait until the browser ends."""
    if sys.stdout is None or sys.stdout.isatty():
        yield
        return
    sys.stdout.flush()
    before, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(nothing)
