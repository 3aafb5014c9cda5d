"""The ledger of passed tests: it counts only while sources, compiler and variables are the same."""

import os
import subprocess
from pathlib import Path

import pytest

from neardriver import ctest, ledger
from neardriver.selection import named
from neardriver.testing import _not_passed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("a.cc", "sub/b.h", "build/made.o", ".gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("build/\n")
    return root


def under_git(root: Path) -> Path:
    for words in (["init", "-q"], ["add", "a.cc", ".gitignore"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    return root


def test_git_names_the_sources_and_those_that_it_does_not_know_yet(tree):
    assert ledger.source_files(under_git(tree)) == [".gitignore", "a.cc", "sub/b.h"]


def test_without_git_all_files_outside_build_are_sources(tree, monkeypatch):
    assert ledger.source_files(tree) == [".gitignore", "a.cc", "sub/b.h"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert ledger.source_files(tree) == [".gitignore", "a.cc", "sub/b.h"]


CHANGES = {
    "longer": lambda root: (root / "a.cc").write_text("more than before"),
    "touched": lambda root: os.utime(root / "sub/b.h", ns=(1, 1)),
    "added": lambda root: (root / "sub/c.h").write_text("x"),
    "removed": lambda root: (root / "a.cc").unlink(),
    "compiler": lambda root: os.utime(root.parent / "c++", ns=(5, 5)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("prepare", [under_git, lambda root: root])
def test_a_change_changes_the_fingerprint(tree, change, prepare):
    prepare(tree)
    compiler = tree.parent / "c++"
    compiler.touch()
    before = ledger.fingerprint(tree, [compiler], {})
    assert ledger.fingerprint(tree, [compiler], {}) == before
    CHANGES[change](tree)
    assert ledger.fingerprint(tree, [compiler], {}) != before


def test_variables_of_tests_change_the_fingerprint_and_others_do_not(tree):
    before = ledger.fingerprint(tree, [], {})
    assert ledger.fingerprint(tree, [], {"HOME": "/x"}) == before
    assert ledger.fingerprint(tree, [], {"NEAR_TEST_SCALE": "10"}) != before


def test_what_is_built_does_not_change_the_fingerprint(tree):
    before = ledger.fingerprint(tree, [], {})
    (tree / "build/made.o").write_text("new")
    assert ledger.fingerprint(tree, [], {}) == before


def test_passed_tests_are_added_and_failed_ones_removed(build):
    book = ledger.ledger("release", "one")
    assert book.passed() == set()
    book.add({"a", "b"}, set())
    book.add({"c"}, {"a"})
    assert ledger.ledger("release", "one").passed() == {"b", "c"}
    assert ledger.ledger("asan", "one").passed() == set()


def test_other_sources_begin_an_empty_ledger(build):
    ledger.ledger("release", "one").add({"a"}, set())
    other = ledger.ledger("release", "two")
    assert other.passed() == set()
    other.add({"b"}, set())
    assert other.passed() == {"b"}


def test_a_damaged_ledger_is_empty(build):
    (build / "logs/passed-release.json").write_text("{")
    assert ledger.ledger("release", "one").passed() == set()


def test_only_the_tier_all_leaves_out_what_has_passed():
    found = [ctest.Test(name, 1, frozenset({"core"})) for name in "ab"]
    assert _not_passed(named("all"), found, {"a"}) == [found[1]]
    for name in ("default", "core"):
        assert _not_passed(named(name), found, {"a"}) == found
