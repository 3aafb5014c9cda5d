"""Debian packages: the table, what is missing, how it is installed by a fake apt-get."""

import contextlib
import os
import tomllib

import pytest

from neardriver import apt, packages, paths, services
from neardriver.messages import Misuse
from scripts import script

PURPOSES = ("build tests lab anchors lint clang aarch64 programs profiles rare counting debugger "
            "peers browser vm tracing").split()


def test_the_table_has_all_purposes_and_each_package_a_probe():
    table = packages.table()
    assert sorted(table) == sorted(PURPOSES)
    assert sum(map(len, table.values())) > 70
    for rows in table.values():
        assert rows and all(isinstance(probe, str) and probe for probe in rows.values())


def test_a_purpose_twice_in_the_table_is_no_toml():
    text = (paths.DATA / "packages.toml").read_text()
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text + '\n[build]\na = "b"\n')


def test_a_probe_is_a_command_or_a_pattern_of_files(tmp_path):
    (tmp_path / "lib-1.so").touch()
    assert packages.is_there("sh") and packages.is_there(f"{tmp_path}/lib-*.so")
    assert not packages.is_there("no-such-command") and not packages.is_there("/no/such-*")


def test_missing_packages_are_named_once_and_sorted():
    table = {"one": {"zed": "no-such-z", "shell": "sh"}, "two": {"zed": "no-such-z",
             "ada": "/no/ada"}, "other": {"more": "/no/more"}}
    assert packages.missing(("one", "two"), table) == ["ada", "zed"]


@pytest.fixture
def lacking(build, commands, monkeypatch):
    """The purpose `some` lacks a command, which the fake apt-get installs if it may."""
    monkeypatch.setattr(packages, "table", lambda: {"some": {"tool-package": "a-tool",
                                                             "odd-package": "an-odd-tool"}})
    monkeypatch.setattr(services, "denied", contextlib.nullcontext)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def installs(*names: str) -> None:
        made = "\n".join(f'case "$*" in *{name}-package*) touch {commands}/{tool}; '
                         f"chmod +x {commands}/{tool};; esac"
                         for name, tool in (("tool", "a-tool"), ("odd", "an-odd-tool"))
                         if name in names)
        refused = "" if "odd" in names else 'case "$*" in *odd-package*) exit 100;; esac'
        script(commands / "apt-get", f'echo "$@"\n[ "$5" = install ] || exit 0\n{refused}\n{made}')

    return installs


def test_root_gets_what_is_missing(lacking, build, capfd):
    lacking("tool", "odd")
    packages.need("some")
    assert capfd.readouterr().err.startswith("near: installing odd-package tool-package\n")
    assert "install -y --no-install-recommends odd-package" in (build / "logs/apt.log").read_text()
    assert packages.INSTALLED.exists()
    packages.need("some")
    assert capfd.readouterr().err == ""


def test_a_refused_package_is_a_misuse_with_the_log(lacking, capfd):
    lacking("tool")
    with pytest.raises(Misuse, match="could not install: odd-package tool-package"):
        packages.need("some")
    assert "install -y" in capfd.readouterr().err


def test_packages_without_their_program_are_told(lacking, commands):
    script(commands / "apt-get", "exit 0")
    with pytest.raises(Misuse, match="installed, yet not usable: odd-package tool-package"):
        packages.need("some")


def test_a_refused_optional_package_does_not_prevent_the_others(lacking, capfd):
    lacking("tool")
    packages.want("some")
    assert packages.is_there("a-tool") and not packages.is_there("an-odd-tool")
    assert "near: going on without odd-package\n" in capfd.readouterr().err


def test_others_than_root_are_told_what_to_install(lacking, monkeypatch):
    lacking("tool", "odd")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Misuse, match="sudo apt-get install --no-install-recommends odd-package "):
        packages.need("some")
    packages.want("some")
    assert not packages.is_there("a-tool")


def test_without_apt_the_debian_names_are_told(lacking, monkeypatch):
    monkeypatch.setattr(apt, "is_here", lambda: False)
    with pytest.raises(Misuse, match="by the names of their Debian packages: odd-package tool"):
        packages.need("some")


@pytest.mark.parametrize("version,fits", [("3.24.9", False), ("3.25.1", True), ("4.0.0", True)])
def test_an_old_cmake_is_refused(build, commands, monkeypatch, version, fits):
    monkeypatch.setattr(packages, "table", lambda: {"build": {}})
    script(commands / "cmake", f"echo cmake version {version}")
    if fits:
        packages.need("build")
    else:
        with pytest.raises(Misuse, match=f"CMake 3.25 or newer is needed, this is {version}"):
            packages.need("build")


def test_redis_server_is_linked_to_the_program_of_another_name(build, commands, monkeypatch):
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setattr(packages, "table", lambda: {"some": {}})
    program = script(commands / "redis-check-rdb", "exit 0")
    packages.want("some")
    assert (paths.BIN / "redis-server").resolve() == program
    packages.add_links_to_path()
    assert packages.is_there("redis-server")


def test_services_do_not_start_while_packages_are_installed(tmp_path):
    policy, links = tmp_path / "policy", tmp_path / "links"
    links.mkdir()
    (links / "old.service").touch()
    with services.denied(policy, f"{links}/*.service"):
        assert policy.stat().st_mode & 0o111 and "exit 101" in policy.read_text()
        (links / "new.service").touch()
    assert not policy.exists()
    assert [path.name for path in links.iterdir()] == ["old.service"]


def test_a_policy_of_others_stays_and_one_left_behind_goes(tmp_path):
    policy = tmp_path / "policy"
    for text, stays in (("#!/bin/sh\nexit 104\n", True), (f"#!/bin/sh\n{services.MARK}\n", False)):
        policy.write_text(text)
        with services.denied(policy, f"{tmp_path}/none/*"):
            assert policy.exists()
        assert policy.exists() == stays
