"""Groups of Python packages: installed once, by a fake pip, and again if their list changes."""

import re
import tomllib

import pytest

from neardriver import groups, locks, paths
from neardriver.messages import Failure
from scripts import script


@pytest.fixture
def pip(build, monkeypatch):
    """A Python whose pip notes its words and ends with the status in the file `status`."""
    (build / "venv/bin").mkdir(parents=True)
    monkeypatch.setattr(paths, "PYTHON", script(
        build / "venv/bin/python3",
        f'echo "$@" >> {build}/calls; echo no matching distribution; exit $(cat {build}/status)'))
    monkeypatch.setattr(groups.time, "sleep", lambda seconds: None)
    (build / "status").write_text("0")

    def calls() -> list[str]:
        noted = build / "calls"
        return noted.read_text().splitlines() if noted.exists() else []

    return calls


def test_every_group_has_requirements_and_they_are_well_formed():
    assert set(groups.NAMES) == {
        "tools", "lab", "results", "tests", "lint", "browser", "peers"}
    for name in groups.NAMES:
        assert groups.requirements(name)
        for line in groups.requirements(name):
            assert re.fullmatch(r"[a-z0-9-]+(\[\w+\])?([=<>~]=?[\d.*]+,?)*", line), line


def test_the_lab_needs_what_its_wheel_states():
    stated = tomllib.loads((paths.ROOT / "lab/pyproject.toml").read_text())["project"]
    assert list(groups.requirements("lab")) == [
        each for each in stated["dependencies"] if each != "nearmalloc-tools"]


def test_a_group_is_installed_once(pip, capfd, monkeypatch):
    groups.need("lint", "tests")
    (call,) = pip()
    assert call.startswith("-m pip install ") and "ruff==" in call and "pytest" in call
    assert "installing Python packages into build/venv (lint, tests)" in capfd.readouterr().err
    monkeypatch.setattr(locks, "hold", None)  # a group that is ready needs no lock
    groups.need("tests")
    groups.need("lint")
    assert len(pip()) == 1 and capfd.readouterr().err == ""


def test_only_what_is_missing_is_installed(pip):
    groups.need("tests")
    groups.need("tests", "lint")
    assert "ruff" in pip()[1] and "pytest" not in pip()[1]


def test_a_group_whose_list_changed_is_installed_again(pip, monkeypatch):
    groups.need("lint")
    monkeypatch.setitem(groups._OWN, "lint", ("ruff==9.*",))
    assert not groups.is_ready("lint")
    groups.need("lint")
    assert "ruff==9.*" in pip()[1]


def test_a_failing_pip_is_tried_three_times_and_is_an_error_of_one_line(pip, build, capfd):
    (build / "status").write_text("1")
    with pytest.raises(Failure, match="pip could not install mypy.*: is the index reachable"):
        groups.need("lint")
    assert len(pip()) == 3 and not groups.is_ready("lint")
    err = capfd.readouterr().err
    assert "near: pip failed (attempt 2 of 3)" in err and "no matching distribution" in err


def test_a_wish_that_cannot_be_installed_is_tried_once(pip, build, capfd):
    (build / "status").write_text("1")
    groups.want("peers")
    groups.want("peers")
    assert len(pip()) == 1
    assert "near: going on without cmeel-mimalloc" in capfd.readouterr().err
