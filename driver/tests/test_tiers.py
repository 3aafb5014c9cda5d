"""`./near test` on a small project with CMake, ninja and CTest: tiers, failures, the ledger."""

import json
import re
import shutil
from pathlib import Path

import pytest

from neardriver import building, ctest, groups, guest, packages, paths, seconds, testing, trees
from neardriver.messages import Failure

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES NONE)
enable_testing()
add_custom_target(default_tests ALL COMMAND ${CMAKE_COMMAND} -E echo built)
function(case name labels)
  add_test(NAME ${name} COMMAND sh -c "echo run >> ${PROJECT_SOURCE_DIR}/build/${name}; ${ARGN}")
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77)
endfunction()
case(quick "core;default" "echo cases: 5")
case(more "core" "echo cases: 6")
case(lazy "lab;default" "echo skipped: 1; exit 77")
case(long "core;soak" "echo cases: 1000")
case(fragile "lab" "echo it broke because; test ! -e ${PROJECT_SOURCE_DIR}/build/break")
"""


@pytest.fixture
def project(tmp_path: Path, build: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not shutil.which("ninja"):
        pytest.skip("ninja is not installed")
    presets = [{"name": name, "generator": "Ninja",
                "binaryDir": "${sourceDir}/build/${presetName}"} for name in ("release", "asan")]
    (tmp_path / "CMakePresets.json").write_text(
        json.dumps({"version": 6, "configurePresets": presets}))
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(trees, "_EVERYTHING", ("release", "asan"))
    clock = seconds.Seconds()
    for module in (testing, building, ctest):
        monkeypatch.setattr(module, "SECONDS", clock)
    for module in (packages, groups, guest):
        for name in ("need", "want"):
            monkeypatch.setattr(module, name, lambda *_: None)
    return tmp_path


def runs(project: Path, name: str) -> int:
    """How often a test of the small project ran."""
    noted = project / "build" / name
    return len(noted.read_text().splitlines()) if noted.exists() else 0


@pytest.fixture
def asked(project, capfd):
    def ask(name: str = "default", tree: str = "", only: str = "") -> tuple[int, str, str]:
        status = testing.test(name, tree, only)
        return (status, *capfd.readouterr())

    return ask


def test_the_default_tier_runs_its_tests_and_says_what_it_leaves(project, asked):
    status, out, err = asked()
    assert status == 0 and out.endswith("1 passed, 0 failed\n")
    assert "near: 2 skipped, 5 cases\n" in err
    assert [runs(project, name) for name in ("quick", "lazy", "more", "long")] == [1, 1, 0, 0]
    assert "within the limit of 10 minutes" in out
    assert re.search(r"(?m)^core +1$", out) and re.search(r"(?m)^lab +1$", out)
    assert "trees that were not built: asan\n" in out and "soak" not in out
    assert re.search(r"(?m)^quick +release +\d+\.\d$", out)
    for step in ("configure", "build", "test"):
        assert re.search(rf"(?m)^{step} +release +\d+$", out), step


def test_all_does_not_repeat_what_has_just_passed(project, asked):
    asked()
    status, out, err = asked("all")
    assert status == 0 and "within the limit of 45 minutes" in out
    assert "near: release: 1 tests were not repeated" in err
    # In the tree asan nothing had passed; what was skipped is tried again; soak is not in `all`.
    assert [runs(project, name) for name in ("quick", "more", "lazy", "long")] == [2, 2, 3, 0]
    assert out.endswith("5 passed, 0 failed\n")
    asked("all")
    assert [runs(project, name) for name in ("quick", "more", "lazy")] == [2, 2, 5]


def test_a_source_that_changes_meanwhile_repeats_everything(project, asked):
    text = PROJECT.replace("echo cases: 6", "touch ${PROJECT_SOURCE_DIR}/new.cc; echo cases: 6")
    (project / "CMakeLists.txt").write_text(text)
    said = "near: release: sources changed while the tests ran"
    assert said in asked("all", "release")[2]
    (project / "CMakeLists.txt").write_text(PROJECT)
    assert said not in asked("all", "release")[2]
    assert runs(project, "quick") == 2


def test_a_changed_source_repeats_everything(project, asked):
    asked("all")
    (project / "source.cc").write_text("// new")
    assert asked("all")[0] == 0
    assert runs(project, "quick") == 4


def test_a_failure_is_shown_and_repeated(project, asked):
    (project / "build/break").touch()
    status, out, err = asked("all", tree="release")
    assert status == 1 and out.endswith("2 passed, 1 failed\n")
    assert re.search(r"(?m)^\d/\d Test +#5: fragile \.+\*+Failed", err)
    assert "near: release: fragile failed; what it printed last:" in err
    assert re.search(r"(?m)^  it broke because$", err)
    (project / "build/break").unlink()
    assert asked("all", tree="release")[0] == 0
    assert (runs(project, "fragile"), runs(project, "quick")) == (2, 1)


def test_a_label_runs_its_tests_again_however_often_they_passed(project, asked):
    asked("lab")
    asked("lab")
    assert (runs(project, "fragile"), runs(project, "quick")) == (2, 0)


def test_only_tests_whose_names_match(project, asked):
    assert asked("all", "release", "qu|mo")[1].endswith("2 passed, 0 failed\n")
    with pytest.raises(Failure, match="there are no tests of default that match 'nothing'"):
        testing.test("default", "", "nothing")


def test_a_tree_that_everything_passed_in_is_no_error(project, asked):
    asked("all", "release", "quick")
    status, out, _ = asked("all", "release", "quick")
    assert status == 0 and out.endswith("0 passed, 0 failed\n") and runs(project, "quick") == 1


def test_a_build_that_fails_shows_why(project, asked, capfd):
    text = PROJECT.replace("-E echo built", "-E cat /no/such/file")
    (project / "CMakeLists.txt").write_text(text)
    with pytest.raises(Failure, match=r"cannot build release \(see build/logs/build-release.log"):
        testing.test("default", "", "")
    assert "/no/such/file" in capfd.readouterr().err


def test_a_tree_is_configured_only_if_something_changed(project, asked, monkeypatch):
    log = project / "build/logs/configure-release.log"
    tree = project / "build/release"
    assert building.is_stale(tree, log, ())
    asked()
    assert not building.is_stale(tree, log, ())
    assert not building.is_stale(tree, log, ("NEAR_TESTS=ON", "NEAR_LAB=ON"))
    assert building.is_stale(tree, log, ("NEAR_TESTS=OFF",))
    assert building.is_stale(tree, log, ("NEAR_OTHER=ON",))
    packages.INSTALLED.touch()
    assert building.is_stale(tree, log, ())


def test_a_project_that_cannot_be_configured_stays_stale(project, capfd):
    building.configure("release")
    packages.INSTALLED.touch()
    (project / "CMakeLists.txt").write_text("message(FATAL_ERROR wrong)")
    for _ in range(2):
        with pytest.raises(Failure, match="cannot configure release"):
            building.configure("release")
        assert "wrong" in capfd.readouterr().err
