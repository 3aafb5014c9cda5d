"""Commands of other programs: what is built and installed before each, and what is not."""

import platform

import pytest

from neardriver import delegating, groups, guest, locks, packages, products, programs
from neardriver.messages import Misuse


@pytest.fixture
def prepared(monkeypatch):
    """Runs a command; returns what it built and wanted, and what it started. It takes no lock."""
    noted = []

    def note(kind, ends=False):
        def noting(*words):
            noted.append(" ".join((kind, *(str(word) for word in words))))
            if ends:
                raise SystemExit
        return noting

    for module, name in (("build", "build_library"), ("build", "build_lab"),
                         ("build", "build_demo"), ("build", "build_simulator")):
        monkeypatch.setattr(products, name, note(f"{module} {name.removeprefix('build_')}"))
    for name in ("need", "want"):
        monkeypatch.setattr(packages, name, note(f"{name} packages"))
        monkeypatch.setattr(groups, name, note(f"{name} groups"))
    monkeypatch.setattr(guest, "need", note("need guest"))
    for name in ("demo", "lab", "machine", "simulator", "tool"):
        monkeypatch.setattr(programs, name, note(f"start {name}", ends=True))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(locks, "hold", note("lock"))

    def prepare(command, *words) -> list[str]:
        noted.clear()
        with pytest.raises(SystemExit):
            command(*words)
        return list(noted)

    return prepare


@pytest.mark.parametrize(
    "command,words",
    [("vm", "list"), ("vm", "figure remote-accesses"), ("vm", "run --help"), ("vm", ""),
     ("manycore", "list"), ("manycore", "report build/x"), ("manycore", "table f"),
     ("manycore", "goals --help"), ("lab", "run --help"), ("demo", "--help"),
     ("lab", "report quick --figure a"), ("lab", "compare a b"), ("lab", "sweep-summary"),
     ("lab", "tables README.md"), ("lab", "timeline run.timeline"),
     ("profile", "--help"), ("profile", "show f"), ("profile", "diff a b")],
)
def test_help_lists_and_reports_build_nothing_and_need_no_packages(prepared, command, words):
    noted = prepared(getattr(delegating, command), words.split())
    assert not [each for each in noted if each.startswith(("build", "need packages", "lock"))]
    assert noted[-1].startswith("start ")


@pytest.mark.parametrize("name", ["top", "core", "exporter"])
def test_readers_of_memory_need_the_tools_alone(prepared, name):
    assert prepared(delegating.read_memory, name, ["5"]) == ["need groups tools",
                                                             f"start tool ['{name}', '5']"]
    assert prepared(delegating.read_memory, name, ["--help"]) == [
        f"start tool ['{name}', '--help']"], "help needs the driver's packages alone"


@pytest.mark.parametrize(
    "command,words,expected",
    [
        ("profile", "-- prog --help", ["build library", "start tool ['profile', "]),
        ("profile", "show f", ["start tool ['profile', 'show', 'f']"]),
        ("demo", "--rounds 3", ["need packages build lab", "build demo",
                                "start demo ['--rounds', '3']"]),
        ("demo", "--long", ["need packages build lab", "need groups tools lab", "build lab",
                            "start demo ['--long']"]),
        ("lab", "run quick", ["need packages build lab", "want packages counting anchors",
                              "want groups peers", "build lab", "start lab ['run', 'quick']"]),
        ("lab", "pictures", ["want packages browser", "need groups browser", "build lab"]),
        ("manycore", "run larson", ["need packages build lab", "build simulator"]),
        ("manycore", "validate", ["build simulator", "build lab"]),
        ("manycore", "calibrate", ["need packages build", "start simulator"]),
        ("vm", "run 2n audit", ["need packages build lab vm", "need guest", "build lab",
                                "start machine ['run', '2n', 'audit']"]),
        ("vm", "plan p", ["want packages peers", "need guest", "build lab"]),
    ],
)
def test_a_command_gets_what_it_needs_in_this_order(prepared, command, words, expected):
    noted = prepared(getattr(delegating, command), words.split())
    places = [next((place for place, each in enumerate(noted) if each.startswith(wanted)), None)
              for wanted in expected]
    assert None not in places, (noted, expected)
    assert places == sorted(places)


def test_the_simulated_machine_is_for_x86_64(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(Misuse, match="x86-64"):
        delegating.manycore(["list"])
