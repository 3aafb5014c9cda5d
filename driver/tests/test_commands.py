"""The command line: help, version, wrong use with its message and status."""

import re
import subprocess
import sys

import pytest

from neardriver import commands, delegating, paths, running, testing, version
from neardriver.messages import Failure, Misuse

NAMES = ("demo run top core exporter profile lab manycore vm build test help").split()


@pytest.fixture
def asked(capfd: pytest.CaptureFixture[str]):
    """Runs a command line; returns its status, stdout and stderr."""

    def ask(*words: str) -> tuple[int, str, str]:
        status = commands.main(list(words))
        return (status, *capfd.readouterr())

    return ask


def test_help_names_every_command(asked):
    status, out, err = asked("--help")
    assert status == 0 and err == ""
    for name in NAMES:
        assert re.search(rf"(?m)^\W*{name} ", out), name


@pytest.mark.parametrize("name", ["run", "build", "test", "help"])
def test_own_commands_have_help(asked, name):
    for words in ((name, "--help"), (name, "-h"), ("help", name)):
        status, out, _ = asked(*words)
        assert status == 0 and f"near {name} " in out, words


def test_the_version_is_that_of_the_header(asked):
    header = (paths.ROOT / "include/nearmalloc/nearmalloc.h").read_text()
    numbers = re.findall(r"#define NEAR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    assert len(numbers) == 3
    assert asked("--version") == (0, f"nearmalloc {'.'.join(numbers)}\n", "")


def test_a_version_is_read_in_any_order():
    lines = [f"#define NEAR_VERSION_{part} {number}\n"
             for part, number in (("PATCH", 3), ("MAJOR", 10), ("MINOR", 2))]
    assert version.of_header("".join(lines)) == "10.2.3"


@pytest.mark.parametrize(
    "words,complaint",
    [
        ("fly", "No such command 'fly'"),
        ("--fast", "No such option: --fast"),
        ("run", "run needs a program"),
        ("run --", "run needs a program"),
        ("run --wrong -- ls", "No such option: --wrong"),
        ("run --design", "'--design' requires an argument"),
        ("run --design libc -- ls", "unknown design 'libc'; there are: scalloc numalloc "),
        ("run --bind tightly ls", "unknown policy 'tightly'; there are: interleave saturate "),
        ("run --bind file:a,b ls", "may not hold a comma"),
        ("run --leaks --design hoard ls", "--leaks is for nearmalloc"),
        ("run --ignore f ls", "--ignore needs --leaks"),
        ("run --interval 5 ls", "--interval needs --leaks"),
        ("build fast", "unknown preset 'fast'; there are: release check "),
        ("build asan tsan", "unexpected extra argument"),
        ("test slow", "unknown label 'slow'; there are: all core lint "),
        ("test --fast", "No such option: --fast"),
        ("test lint --tree asan", "lint has no tests in tree 'asan'; there are: release"),
        ("test --only (", "'(' is no regular expression"),
        ("help fly", "No such command 'fly'"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(asked, words, complaint):
    status, out, err = asked(*words.split())
    assert (status, out) == (2, "")
    assert err.startswith("near: ") and complaint in err and err.count("\n") == 1


def test_no_command_shows_the_help_and_is_wrong(asked):
    status, out, err = asked()
    assert status == 2 and "manycore" in out + err


@pytest.mark.parametrize("raised,expected", [(Failure("it broke"), 1), (Misuse("it lacks"), 2)])
def test_a_failure_is_one_line_and_its_status(asked, monkeypatch, raised, expected):
    def fail(*_):
        raise raised

    monkeypatch.setattr(testing, "test", fail)
    assert asked("test") == (expected, "", f"near: {raised}\n")


def test_an_interrupted_command_ends_without_a_trace(asked, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(testing, "test", interrupt)
    assert asked("test")[0] == 130


def test_the_status_of_tests_is_that_of_the_command(asked, monkeypatch):
    given = []
    monkeypatch.setattr(testing, "test", lambda *words: given.append(words) or 1)
    assert asked("test")[0] == 1
    assert asked("test", "core", "--tree", "asan", "--only", "fork")[0] == 1
    assert given == [("default", "", ""), ("core", "asan", "fork")]


@pytest.mark.parametrize("name", ["demo", "lab", "manycore", "vm", "profile"])
def test_a_delegated_command_gets_its_words_as_they_are(asked, monkeypatch, name):
    given = []
    monkeypatch.setattr(delegating, name, given.append)
    words = ["--wrong", "a", "--", "b", "--help", "--"]
    assert asked(name, *words)[0] == 0
    assert given == [words]


@pytest.mark.parametrize("name", ["top", "core", "exporter"])
def test_a_reader_of_memory_gets_its_words_as_they_are(asked, monkeypatch, name):
    given = []
    monkeypatch.setattr(delegating, "read_memory", lambda *words: given.append(words))
    assert asked(name, "--help", "5")[0] == 0
    assert given == [(name, ["--help", "5"])]


def test_the_words_of_run_reach_the_program(asked, monkeypatch):
    given = []
    monkeypatch.setattr(running, "run", given.append)
    words = "--leaks --interval 9 --ignore f --ignore g --stats -- ls -l -- --design x"
    assert asked("run", *words.split())[0] == 0
    assert asked("run", "--design", "hoard", "ls", "--stats")[0] == 0
    of_leaks = ("--interval", "9", "--ignore", "f", "--ignore", "g")
    assert given == [
        running.Request(("ls", "-l", "--", "--design", "x"), "", "", True, True, of_leaks),
        running.Request(("ls", "--stats"), "hoard"),
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell):
    done = subprocess.run(
        [sys.executable, paths.ROOT / "driver", "--show-completion", shell],
        capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert done.returncode == 0, done.stderr
    assert "_NEAR_COMPLETE" in done.stdout


def test_completion_offers_commands_labels_and_presets():
    def offered(words: str) -> str:
        typed = {"COMP_WORDS": f"near {words}", "COMP_CWORD": str(words.count(" ") + 1)}
        done = subprocess.run(
            [sys.executable, paths.ROOT / "driver"], capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", "_NEAR_COMPLETE": "complete_bash", **typed})
        return done.stdout

    assert offered("ma").split() == ["manycore"]
    assert offered("test numa").split() == ["numa", "numa-matrix"]
    assert offered("build t").split() == ["tsan"]


