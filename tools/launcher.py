#!/usr/bin/env python3
"""`nearmalloc`, as `cmake --install` installs it: its package lies below lib, beside bin."""

import sys
from importlib.util import find_spec
from pathlib import Path

# What Python calls each package that the commands need: its names in Debian and for pip.
NEEDED = {
    "elftools": ("python3-pyelftools", "pyelftools"),
    "jinja2": ("python3-jinja2", "jinja2"),
    "prometheus_client": ("python3-prometheus-client", "prometheus-client"),
    "rich": ("python3-rich", "rich"),
    "typer": ("python3-typer", "typer"),
}


def need(text: str) -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    print(f"nearmalloc: {text}; this is Python {version}, {sys.executable}", file=sys.stderr)
    sys.exit(2)


if sys.version_info < (3, 11):  # noqa: UP036  # this file alone runs on any
    need("Python 3.11 or later is needed")
missing = [names for module, names in NEEDED.items() if find_spec(module) is None]
if missing:
    debian, pip = (" ".join(column) for column in zip(*missing, strict=True))
    need(f"packages are missing: apt install {debian}, or pip install {pip}")
prefix = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(prefix / "lib" / "nearmalloc" / "python"))
from nearmalloc_tools.commands import main  # noqa: E402

main()
