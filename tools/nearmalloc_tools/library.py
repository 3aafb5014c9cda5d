"""Which libnearmalloc is preloaded into programs, and the environment that they get."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from nearmalloc_tools import __version__
from nearmalloc_tools.errors import Refused

_NAME = f"libnearmalloc.so.{__version__.partition('.')[0]}"  # by its soname
_ROOT = Path(__file__).resolve().parents[1]  # the folder that has this package
# `cmake --install` puts the package there, below the prefix.
_INSTALLED = ("lib", "nearmalloc", "python")


def find() -> list[Path]:
    """NEAR_LIBRARY, which may name several libraries as LD_PRELOAD does; else the library that was
    installed with this package; else the one that the dynamic linker knows."""
    if named := os.environ.get("NEAR_LIBRARY"):
        libraries = [Path(each).absolute() for each in named.split(":") if each]
        for each in libraries:
            if not each.is_file():
                raise Refused(f"NEAR_LIBRARY: there is no file {each}")
        return libraries
    found = next(iter([*_beside(), *_of_linker()]), None)
    if found is None:
        raise Refused(f"{_NAME} is not installed: NEAR_LIBRARY=PATH says where it is")
    return [found]


def _beside() -> list[Path]:
    if _ROOT.parts[-3:] != _INSTALLED:
        return []
    prefix = _ROOT.parents[len(_INSTALLED) - 1]
    return sorted({*prefix.glob(f"lib*/{_NAME}"), *prefix.glob(f"lib/*/{_NAME}")})


def _of_linker() -> list[Path]:
    path = f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin"
    if (ldconfig := shutil.which("ldconfig", path=path)) is None:
        return []
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    paths = re.findall(rf"^\s*{re.escape(_NAME)} .*=> (/.*)$", listed, re.MULTILINE)
    return [Path(each) for each in paths]


def callers_environment() -> dict[str, str]:
    """The environment of this program's caller. If another program runs this one (NEAR_PROGRAM),
    what that program set for this one is left out: it would change how a Python program runs."""
    variables = dict(os.environ)
    if variables.pop("NEAR_PROGRAM", None) is None:
        return variables
    for name in ("NEAR_LIBRARY", "PYTHONDONTWRITEBYTECODE"):
        variables.pop(name, None)
    folders = variables.pop("PYTHONPATH", "").split(":")
    if kept := ":".join(each for each in folders if each != str(_ROOT)):
        variables["PYTHONPATH"] = kept
    return variables


def environment() -> dict[str, str]:
    """The caller's environment, with the library preloaded before what the caller preloads."""
    variables = callers_environment()
    libraries = [str(each) for each in find()]
    for each in libraries:
        if re.search(r"[\s:]", each):
            raise Refused(f"the dynamic linker cannot preload a path with a blank or colon: {each}")
    variables["LD_PRELOAD"] = ":".join([*libraries, *filter(None, [variables.get("LD_PRELOAD")])])
    return variables
