"""Starting a Python program of this repository in place of the driver.

The programs are modules of the tools, the lab, the NUMA machine and the simulated machine.
"""

import os
import sys
from collections.abc import Sequence
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


def machine(words: Sequence[str]) -> NoReturn:
    """The NUMA machine."""
    _start("nearvm", (*_LAB, "vm/py"), words)


def simulator(words: Sequence[str]) -> NoReturn:
    _start("nearmanycore", (*_LAB, "manycore/py"), words)


# The module of each tool. `leaks` has no command of its own here: it is `./near run --leaks`.
_MODULES = {
    "top": "nearmalloc_tools.top.command",
    "core": "nearmalloc_tools.debugger.command",
    "exporter": "nearmalloc_tools.exporter.command",
    "profile": "nearmalloc_tools.profile.command",
    "profile diff": "nearmalloc_tools.profile.diff",
    "profile show": "nearmalloc_tools.profile.show",
}
_LIBRARY = paths.tree("release") / "libnearmalloc.so"


def tool(name: str, words: Sequence[str]) -> NoReturn:
    """A tool of _MODULES. A program that it runs speaks the user's language."""
    language.restore()
    _start(_MODULES[name], _TOOLS, words, NEAR_LIBRARY=str(_LIBRARY))


_LEAKS = """import sys; sys.path.insert(0, sys.argv.pop(1))
from nearmalloc_tools import typer_app
from nearmalloc_tools.leaks.command import leaks
typer_app.run(leaks, 'run --leaks')"""


def leaks(preload: str, options: Sequence[str], command: Sequence[str],
          variables: dict[str, str]) -> NoReturn:
    """Runs the command and reports its leaks. The command inherits no PYTHONPATH of ours."""
    environment = os.environ | variables | {
        "NEAR_PRELOAD": preload, "PYTHONDONTWRITEBYTECODE": "1"}
    words = ["-c", _LEAKS, str(paths.ROOT / "tools"), *options, "--", *command]
    os.execve(paths.PYTHON, [str(paths.PYTHON), *words], environment)
