"""The language of programs that the driver reads or tests: C.UTF-8.

Programs of the user keep the user's language.
"""

import os

_LANGUAGE = "C.UTF-8"
_NAME = "LC_ALL"
_given: list[str | None] = []


def fix() -> None:
    """Programs that are started from now on speak C.UTF-8."""
    _given.append(os.environ.get(_NAME))
    os.environ[_NAME] = _LANGUAGE


def restore() -> None:
    """Programs that are started from now on speak the user's language."""
    before = _given.pop() if _given else os.environ.get(_NAME)
    if before is None:
        os.environ.pop(_NAME, None)
    else:
        os.environ[_NAME] = before
