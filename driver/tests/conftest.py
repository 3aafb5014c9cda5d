"""What the tests of the driver share: the count of cases, and an empty build folder."""

import os
from pathlib import Path

import pytest

from case_count import pytest_terminal_summary as pytest_terminal_summary
from neardriver import packages, paths


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder of the test's own, in place of the repository's."""
    folder = tmp_path / "build"
    monkeypatch.setattr(paths, "BUILD", folder)
    for name in ("LOGS", "LOCKS", "BIN", "VENV"):
        monkeypatch.setattr(paths, name, folder / name.lower())
    monkeypatch.setattr(packages, "INSTALLED", folder / "logs" / "installed")
    monkeypatch.delenv("NEAR_LOCKED", raising=False)
    (folder / "logs").mkdir(parents=True)
    (folder / "venv").mkdir()
    return folder


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of PATH, for programs that the test writes."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder
