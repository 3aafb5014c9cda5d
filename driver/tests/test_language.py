"""Programs that the driver reads speak C.UTF-8; programs of the user speak the user's language."""

import os

import pytest

from neardriver import commands, groups, products, testing


@pytest.mark.parametrize("given", [None, "de_DE.UTF-8"])
def test_tests_run_in_one_language_and_programs_in_the_users(monkeypatch, given):
    if given is None:
        monkeypatch.delenv("LC_ALL", raising=False)
    else:
        monkeypatch.setenv("LC_ALL", given)
    spoken = {}

    def note(name):
        return lambda *_: spoken.update({name: os.environ.get("LC_ALL")})

    monkeypatch.setattr(testing, "test", note("test"))
    monkeypatch.setattr(products, "build", note("build"))
    monkeypatch.setattr(groups, "need", lambda *_: None)
    monkeypatch.setattr(os, "execvp", note("run"))
    monkeypatch.setattr(os, "execve", note("tool"))
    commands.main(["test"])
    commands.main(["run", "ls"])
    commands.main(["top", "5"])
    assert spoken == {"test": "C.UTF-8", "build": "C.UTF-8", "run": given, "tool": given}
    assert os.environ.get("LC_ALL") == given
