"""The page of `./near profile` is opened if a user sees it, and only then."""

import contextlib
import os
import pty
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from modules import run_command
from nearmalloc_tools.profile import browser
from nearmalloc_tools.profile.browser import is_seen

# A program that takes samples, and ends with status 3.
PROGRAM = ("--interval", "1000", "--no-leaks", "--", "/bin/sh", "-c", "echo; exit 3")
GRAPHICAL = ("DISPLAY", "WAYLAND_DISPLAY")


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the only browser of this machine writes what it is asked for, and its environment."""
    for name in (*GRAPHICAL, "TERM", "CI", "SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    script, file = tmp_path / "browser", tmp_path / "opened"
    script.write_text(f'#!/bin/sh\n{{ echo "$1"; env; }} > {file}\n', encoding="ascii")
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(script))
    return file


def asked(opened: Path) -> str:
    """What the browser was asked for."""
    return opened.read_text(encoding="utf-8").splitlines()[0] if opened.exists() else ""


def on_terminal(folder: Path, *words: str) -> int:
    """The status of `./near profile` on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "nearmalloc_tools", "profile", *words],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as running:
        os.close(theirs)
        with contextlib.suppress(OSError):  # the other end was closed
            while os.read(ours, 65536):
                pass
        os.close(ours)
        return running.wait(120)


def test_a_page_is_seen_at_a_terminal_of_a_graphical_session_by_its_user() -> None:
    for name in GRAPHICAL:
        assert is_seen({name: ":0"}, terminal=True, user=1000)
        assert not is_seen({name: ":0"}, terminal=False, user=1000)
        assert not is_seen({name: ":0"}, terminal=True, user=0), "the session may be another's"
        for away in ("CI", "SSH_CONNECTION", "SSH_TTY"):
            assert not is_seen({name: ":0", away: "1"}, terminal=True, user=1000)
        assert not is_seen({name: ""}, terminal=True, user=1000)
    assert not is_seen({}, terminal=True, user=1000)


@pytest.mark.parametrize(
    "wanted,seen,there,is_opened",
    [
        (None, True, True, True),
        (None, False, True, False),
        (None, True, False, False),  # it went to the terminal
        (False, True, True, False),
        (True, False, True, True),
    ],
)
def test_what_is_asked_for_goes_first(
    wanted: bool | None,
    seen: bool,
    there: bool,
    is_opened: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browser, "is_seen", lambda *_: seen)
    pages: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda page: pages.append(page) or True)
    page = tmp_path / "page.html"
    if there:
        page.touch()
    browser.offer(page, wanted)
    assert pages == ([page.as_uri()] if is_opened else [])


def test_a_closed_stdout_is_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.touch()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("it was opened"))
    browser.offer(page, None)


def test_a_browser_without_a_name_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: str) -> bool:
        raise IndexError  # as webbrowser does if BROWSER is a space

    monkeypatch.setattr(webbrowser, "open", refuse)
    browser.offer(tmp_path / "page.html", True)
    expected = "nearmalloc: no browser could be started; BROWSER may name one\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    "words,display,is_opened",
    [
        ((), ":0", os.geteuid() != 0),
        ((), "", False),
        (("--no-open",), ":0", False),
        (("--open",), "", True),
    ],
)
def test_on_a_terminal(
    words: tuple[str, ...],
    display: str,
    is_opened: bool,
    opened: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DISPLAY", display)
    assert on_terminal(tmp_path, *words, "--out", "a page.html", *PROGRAM) == 3
    page = tmp_path / "a page.html"
    assert page.exists() and asked(opened) == (page.as_uri() if is_opened else "")


@pytest.mark.parametrize("words", [(), ("--open",)])
def test_elsewhere_only_if_it_is_asked_for(
    words: tuple[str, ...], opened: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    result = run_command("profile", *words, *PROGRAM, cwd=tmp_path)
    assert result.returncode == 3 and "browser" not in result.stderr
    assert bool(asked(opened)) == bool(words)


def test_a_browser_does_not_keep_the_pipe_that_stdout_is(opened: Path, tmp_path: Path) -> None:
    script, ends = Path(os.environ["BROWSER"]), tmp_path / "ends"
    os.mkfifo(ends)
    waits = f"{{ read end < {ends}; }} 2> /dev/null &"
    script.write_text(f'#!/bin/sh\necho noise\necho "$1" > {opened}\n{waits}\n', "ascii")
    result = run_command("profile", "--open", *PROGRAM, cwd=tmp_path)  # else it never ends
    ends.write_text("now\n", "ascii")  # the browser's child still runs
    assert result.returncode == 3 and asked(opened) and "noise" not in result.stdout


def test_a_profile_that_is_shown_is_opened_too(opened: Path, tmp_path: Path) -> None:
    variables = {
        "LD_PRELOAD": os.environ["NEAR_LIBRARY"],
        "NEARMALLOC_PROFILE": "on",
        "NEARMALLOC_PROFILE_INTERVAL": "1000",
        "NEARMALLOC_PROFILE_FILE": "kept:profile",
    }
    subprocess.run(["/bin/sh", "-c", "echo"], cwd=tmp_path, env=variables, check=True)
    for words in ((), ("--open",)):
        result = run_command("profile", "show", "profile", *words, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert asked(opened) == ((tmp_path / "near-profile.html").as_uri() if words else "")


OWN = {"NEAR_LIBRARY", "NEAR_PROGRAM", "PYTHONDONTWRITEBYTECODE"}
TOOLS = str(Path(__file__).parents[1])


@pytest.mark.parametrize("others", ["", ":/no/such/folder"])
def test_the_browser_does_not_get_what_another_program_set_for_this_one(
    opened: Path, tmp_path: Path, others: str
) -> None:
    variables = {"NEAR_PROGRAM": "./near", "PYTHONPATH": TOOLS + others}
    result = run_command("profile", "--open", *PROGRAM, cwd=tmp_path, **variables)
    assert result.returncode == 3
    given = variables_of(opened)
    assert "BROWSER" in given and not given.keys() & OWN
    assert given.get("PYTHONPATH", "") == others.removeprefix(":")


def test_the_browser_gets_the_variables_of_the_user(opened: Path, tmp_path: Path) -> None:
    result = run_command("profile", "--open", *PROGRAM, cwd=tmp_path, PYTHONPATH=TOOLS)
    assert result.returncode == 3
    given = variables_of(opened)
    assert given["PYTHONPATH"] == TOOLS and given["NEAR_LIBRARY"] == os.environ["NEAR_LIBRARY"]


def variables_of(opened: Path) -> dict[str, str]:
    """The environment of the browser."""
    lines = opened.read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.parametrize("name", ["/no/such/browser", "/bin/false", "'%s"])
def test_a_browser_that_cannot_be_started_is_one_line_and_no_failure(
    name: str, opened: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", name)
    result = run_command("profile", "--open", *PROGRAM, cwd=tmp_path)
    assert result.returncode == 3
    *_, page, last = result.stderr.splitlines()
    assert page == "nearmalloc: the page is near-profile.html"
    assert last == "nearmalloc: no browser could be started; BROWSER may name one"
