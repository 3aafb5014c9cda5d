"""Which trees, tests, packages and Python packages a tier or label has."""

import json
import platform

import pytest

from neardriver import groups, packages, paths, selection, trees
from neardriver.ctest import Test as OneTest
from neardriver.messages import Misuse

NAMES = (selection.DEFAULT, selection.ALL, *trees.LABELS)


@pytest.fixture(autouse=True)
def on_x86_64(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


def test_the_table_of_trees_is_that_of_the_presets():
    presets = json.loads((paths.ROOT / "CMakePresets.json").read_text())["configurePresets"]
    assert set(trees.TREES) == {each["name"] for each in presets if not each.get("hidden")}
    for tree in trees.TREES.values():
        assert set(tree.purposes) <= set(packages.table())


@pytest.mark.parametrize("name", NAMES)
def test_what_a_selection_names_exists(name):
    chosen = selection.named(name)
    assert chosen.trees and set(chosen.trees) <= set(trees.TREES)
    assert set(chosen.needed + chosen.wanted) <= set(packages.table())
    assert set(chosen.groups + chosen.wanted_groups) <= set(groups.NAMES)
    assert {"build", "tests"} <= set(chosen.needed) and "tests" in chosen.groups


@pytest.mark.parametrize(
    "name,wanted",
    [
        (selection.DEFAULT, ""),
        (selection.ALL, "programs counting tracing anchors browser debugger peers vm profiles"),
        ("core", "programs counting tracing anchors profiles"),
        ("lint", "programs counting anchors"),
        ("lab", "programs counting anchors browser debugger peers"),
        ("tools", "programs counting anchors browser debugger"),
        ("numa-matrix", "programs counting anchors peers"),
        ("programs", "programs counting anchors profiles rare"),
        ("soak", "programs counting anchors peers vm"),
    ],
)
def test_optional_programs_are_wanted_by_the_tests_that_use_them(name, wanted):
    assert selection.named(name).wanted == tuple(wanted.split())


@pytest.mark.parametrize(
    "name,purposes,guest",
    [("numa", {"vm"}, "needed"), ("numa-matrix", {"vm"}, "needed"), ("soak", {"clang"}, "wanted"),
     (selection.ALL, {"clang", "lint", "aarch64"}, "wanted"), ("lint", {"lint"}, ""),
     (selection.DEFAULT, {"lint"}, "")],
)
def test_packages_without_which_there_are_no_tests_are_needed(name, purposes, guest):
    chosen = selection.named(name)
    assert set(chosen.needed) == {"build", "tests", "lab"} | purposes
    assert chosen.guest == guest


def test_labels_are_whole_words():
    numa, matrix, rare = (OneTest("t", 1, frozenset(labels)) for labels in (
        {"numa", "default"}, {"numa-matrix", "soak"}, {"programs", "rare"}))
    assert [selection.named("numa").has(test) for test in (numa, matrix)] == [True, False]
    assert [selection.named("soak").has(test) for test in (numa, matrix)] == [False, True]
    everything = selection.named(selection.ALL)
    assert [everything.has(test) for test in (numa, matrix, rare)] == [True, False, False]
    assert selection.named(selection.DEFAULT).has(numa)
    assert selection.named("programs").has(rare)


def test_targets_limits_and_timeouts():
    chosen = {name: selection.named(name) for name in NAMES}
    assert {chosen[selection.DEFAULT].target(tree) for tree in trees.TREES} == {"default_tests"}
    assert chosen["programs"].target("release") == "programs"
    assert chosen["soak"].target("asan") == chosen["core"].target("asan") == "all"
    assert {name: each.limit for name, each in chosen.items() if each.limit} == {
        selection.DEFAULT: 10, selection.ALL: 45}
    assert {name for name, each in chosen.items() if each.timeout > 600} == {"soak", "programs"}


def test_other_processors_have_neither_simulations_nor_the_cross_build(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert selection.named(selection.ALL).trees == ("release", "asan", "tsan")
    assert "aarch64" not in selection.named("core").trees


def test_one_tree_of_a_selection():
    chosen = selection.restricted(selection.named("core"), "asan", "fork")
    assert chosen.trees == ("asan",) and chosen.only == "fork"
    with pytest.raises(Misuse, match="lint has no tests in tree 'asan'; there are: release"):
        selection.restricted(selection.named("lint"), "asan", "")
