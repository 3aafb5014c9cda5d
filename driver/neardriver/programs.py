"""Starting a Python program of this repository in place of the driver.

The programs are modules of the tools, the lab, the NUMA machine and the simulated machine.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from neardriver import language, paths

_TOOLS = ("tools",)
_LAB = ("lab", "tools")


def _start(module: str, folders: Sequence[str], words: Sequence[str],
           **variables: str) -> NoReturn:
    """Replaces this process by `python3 -m MODULE WORD...`."""
    given = os.environ.get("PYTHONPATH")
    modules = [*(str(paths.ROOT / each) for each in folders), *([given] if given else [])]
    environment = os.environ | variables | {
        "PYTHONPATH": os.pathsep.join(modules), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.stdout.flush()
    os.execve(paths.PYTHON, [str(paths.PYTHON), "-m", module, *words], environment)


def lab(words: Sequence[str]) -> NoReturn:
    _start("nearlab", _LAB, words, NEAR_LAB_COMMAND="./near lab")


def demo(words: Sequence[str]) -> NoReturn:
    _start("nearlab", _LAB, ["demo", *words], NEAR_LAB_COMMAND="./near")


def machine(words: Sequence[str]) -> NoReturn:
    """The NUMA machine."""
    _start("nearvm", (*_LAB, "vm/py"), words)


def simulator(words: Sequence[str]) -> NoReturn:
    _start("nearmanycore", (*_LAB, "manycore/py"), words)


def tool(words: Sequence[str], *libraries: Path, **variables: str) -> NoReturn:
    """A command of the tools, which preloads the libraries into the program that it runs. That
    program speaks the user's language."""
    language.restore()
    _start("nearmalloc_tools", _TOOLS, words, NEAR_PROGRAM="./near",
           NEAR_LIBRARY=":".join(map(str, libraries)), **variables)
