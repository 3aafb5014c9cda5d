"""Which tests `./near test` runs: a tier (`default`, `all`) or a label, with what they need."""

from dataclasses import dataclass, replace

from neardriver import trees
from neardriver.ctest import Test
from neardriver.messages import Misuse

DEFAULT, ALL = "default", "all"
_NOT_IN_ALL = frozenset({"soak", "rare"})  # the tests of numa-matrix have the label soak, too
_LONG = {"soak", "programs"}
_LONG_TIMEOUT, _TIMEOUT = 7200, 600  # seconds
_DEFAULT_TARGET = "default_tests"
_LIMITS = {DEFAULT: 10.0, ALL: 45.0}  # minutes


@dataclass(frozen=True)
class Selection:
    """Tests of some trees: their packages, Python packages, targets and limits."""

    name: str
    trees: tuple[str, ...]
    needed: tuple[str, ...]  # purposes of Debian packages
    wanted: tuple[str, ...]  # those that tests can do without
    groups: tuple[str, ...]  # of Python packages
    wanted_groups: tuple[str, ...]
    guest: str  # whether the NUMA machine's guest is `needed`, `wanted` or neither
    only: str = ""

    @property
    def limit(self) -> float | None:
        """The most minutes that the tests should take, downloads excepted."""
        return _LIMITS.get(self.name)

    @property
    def timeout(self) -> int:
        return _LONG_TIMEOUT if self.name in _LONG else _TIMEOUT

    def has(self, test: Test) -> bool:
        if self.name == ALL:
            return not test.labels & _NOT_IN_ALL
        return self.name in test.labels

    def target(self, tree: str) -> str:
        if self.name == DEFAULT:
            return _DEFAULT_TARGET
        return "programs" if self.name == "programs" else trees.TREES[tree].target


def _trees_of(name: str) -> tuple[str, ...]:
    if name == DEFAULT:
        return trees.DEFAULT_TIER
    return trees.everything() if name == ALL else trees.of_label(name)


# Debian packages without which tests are skipped, by purpose: the tiers and labels that want them.
_WANTED = {
    "programs": {ALL, *trees.LABELS},
    "counting": {ALL, *trees.LABELS},
    "tracing": {ALL, "core"},
    "anchors": {ALL, *trees.LABELS},
    "browser": {ALL, "lab", "tools"},
    "debugger": {ALL, "lab", "tools"},
    "peers": {ALL, "lab", "numa-matrix", "soak"},
    "vm": {ALL, "soak"},
    "profiles": {ALL, "core", "programs"},
    "rare": {"programs"},
}
_LINTED = {DEFAULT, ALL, "lint"}
_GUESTS = {"numa": "needed", "numa-matrix": "needed", ALL: "wanted", "soak": "wanted"}
_GROUPS = ("tools", "lab", "tests", "browser")
_DEFAULT_GROUPS = ("tools", "results", "tests")
_MEASURED = {ALL, "lab", "numa-matrix", "soak", "manycore"}


def _groups_of(name: str) -> tuple[str, ...]:
    if name == DEFAULT:
        return _DEFAULT_GROUPS
    return (*_GROUPS, "lint") if name in _LINTED else _GROUPS


def named(name: str) -> Selection:
    """The selection of a tier or label."""
    if name not in (DEFAULT, ALL, *trees.LABELS):
        raise Misuse(f"unknown label '{name}'; there are: {' '.join((ALL, *trees.LABELS))}")
    chosen = _trees_of(name)
    needed = {"build", "tests", "lab", *(each for tree in chosen
                                         for each in trees.TREES[tree].purposes)}
    needed |= {"lint"} if name in _LINTED else set()
    needed |= {"vm"} if _GUESTS.get(name) == "needed" else set()
    return Selection(
        name=name,
        trees=chosen,
        needed=tuple(sorted(needed)),
        wanted=tuple(purpose for purpose, wanting in _WANTED.items() if name in wanting),
        groups=_groups_of(name),
        wanted_groups=("peers",) if name in _MEASURED else (),
        guest=_GUESTS.get(name, ""),
    )


def restricted(selection: Selection, tree: str, only: str) -> Selection:
    """The tests of the selection in one tree, or whose names match a pattern."""
    if tree and tree not in selection.trees:
        raise Misuse(f"{selection.name} has no tests in tree '{tree}'; there are: "
                     f"{' '.join(selection.trees)}")
    return replace(selection, trees=(tree,) if tree else selection.trees, only=only)
