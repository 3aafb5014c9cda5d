"""Paths of the repository and of its build folder. Invariant: only this module knows them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
LOCKS = BUILD / "locks"
BIN = BUILD / "bin"  # links to programs that Debian has under other names
VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python3"
DATA = Path(__file__).resolve().parent


def tree(preset: str) -> Path:
    """The build tree of a preset."""
    return BUILD / preset


def log(name: str) -> Path:
    """A log file, whose folder exists."""
    LOGS.mkdir(parents=True, exist_ok=True)
    return LOGS / f"{name}.log"
