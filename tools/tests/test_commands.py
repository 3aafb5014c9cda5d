"""The command line: quick help, one wording of errors, completion, and which library is used."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modules import run_command
from nearmalloc_tools import library
from nearmalloc_tools.errors import Refused

COMMANDS = ("top", "core", "exporter", "run", "leaks", "profile")
OF_PROFILE = ("run", "show", "diff")
MANUAL = Path(__file__).parents[2] / "docs" / "nearmalloc.1"
LIBRARY = os.environ["NEAR_LIBRARY"]


def test_help_names_all_commands_and_the_manual_all_options():
    text = run_command("--help").stdout
    assert all(re.search(rf"\b{name}\b", text) for name in COMMANDS)
    manual = MANUAL.read_text(encoding="ascii").replace("\\-", "-")
    words = [[name] for name in COMMANDS] + [["profile", name] for name in OF_PROFILE]
    options = 0
    for each in words:
        result = run_command(*each, "--help")
        assert result.returncode == 0 and each[-1] in result.stdout, result.stderr
        for option in re.findall(r"--[a-z-]+", result.stdout):
            assert option in manual, f"{option} of {each} is not in the manual"
            options += 1
    assert options > 20


def test_help_and_completion_load_no_command():
    """They would be slow."""
    script = (
        "import sys; from nearmalloc_tools import commands\n"
        "try: commands.main()\n"
        "finally: print([each for each in sys.modules if each.startswith(('nearmalloc_tools.',"
        "'elftools', 'jinja2', 'prometheus_client'))])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.splitlines()[-1]
    assert loaded == "['nearmalloc_tools.errors', 'nearmalloc_tools.commands']"


@pytest.mark.parametrize(
    "words,reason",
    [
        ([], "missing command (see nearmalloc --help)"),
        (["no-such"], "no such command 'no-such' (see nearmalloc --help)"),
        (["top"], "missing argument 'PID|NAME...' (see nearmalloc top --help)"),
        (["top", "--bad"], "no such option: --bad (see nearmalloc top --help)"),
        (["top", "1", "--json"], "--json needs --once"),
        (["leaks"], "missing argument 'PROGRAM [ARGUMENT...]' (see nearmalloc leaks --help)"),
        (["run", "--ignore", "x", "ls"], "--ignore needs --leaks"),
        (["run", "--interval", "9", "ls"], "--interval needs --leaks"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(words, reason):
    result = run_command(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"nearmalloc: {reason}\n"


def test_a_value_out_of_range_is_wrong_use():
    result = run_command("exporter", "x", "--port", "99999")
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("nearmalloc: invalid value for '--port': ")


def test_another_program_that_runs_this_one_is_named():
    result = run_command("top", "--bad", NEAR_PROGRAM="./near")
    assert result.stderr == "near: no such option: --bad (see ./near top --help)\n"


def test_the_shell_completes_commands():
    variables = {"_NEARMALLOC_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    result = run_command(COMP_WORDS="nearmalloc pro", **variables)
    assert result.stdout.split() == ["profile"], result.stderr


def test_words_behind_the_program_are_its_own():
    script = "import os, sys; print(sys.argv[1:], os.environ['LD_PRELOAD'].split(':')[0])"
    words = [sys.executable, "-c", script, "--stats", "--help"]
    for given in (words, ["--", *words]):
        result = run_command("run", *given)
        assert result.stdout == f"['--stats', '--help'] {LIBRARY}\n", result.stderr
    assert "nearmalloc 0" in run_command("run", "--stats", "true").stderr


def test_a_program_that_is_not_there_is_refused():
    result = run_command("run", "/no/such/program")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "nearmalloc: /no/such/program: No such file or directory\n"


def test_a_library_that_is_not_there_is_refused():
    result = run_command("run", "true", NEAR_LIBRARY="/no/such.so")
    assert (result.returncode, result.stderr) == (
        1,
        "nearmalloc: NEAR_LIBRARY: there is no file /no/such.so\n",
    )


@pytest.fixture
def linker(tmp_path, monkeypatch) -> Path:
    """Another ldconfig, which lists libraries; it is in a folder before all others in PATH."""
    monkeypatch.delenv("NEAR_LIBRARY")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    names = {"-api.so.0": "/a/api.so", ".so": "/a/link.so", ".so.0": "/b/l.so"}
    lines = [f"\\tlibnearmalloc{name} (libc6) => {path}" for name, path in names.items()]
    script = tmp_path / "ldconfig"
    script.write_text("#!/bin/sh\nprintf '" + "\\n".join(lines) + "\\n'\n", encoding="ascii")
    script.chmod(0o755)
    return script


def test_the_dynamic_linker_says_where_the_library_is(linker):
    assert library.find() == [Path("/b/l.so")]


def test_without_a_library_nothing_is_run(linker):
    linker.write_text("#!/bin/sh\n", encoding="ascii")
    with pytest.raises(Refused, match="libnearmalloc.so.0 is not installed: NEAR_LIBRARY=PATH"):
        library.environment()


def test_the_library_beside_the_package_goes_before_the_linkers(linker, tmp_path, monkeypatch):
    package = tmp_path / "lib" / "nearmalloc" / "python"
    for folder in ("lib64", "lib/x86_64-linux-gnu"):
        monkeypatch.setattr(library, "_ROOT", package)
        beside = tmp_path / folder / "libnearmalloc.so.0"
        beside.parent.mkdir(parents=True)
        beside.touch()
        assert library.find() == [beside]
        beside.unlink()


def test_the_callers_libraries_are_preloaded_too(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "libother.so")
    monkeypatch.setenv("NEAR_LIBRARY", f"{LIBRARY}:{LIBRARY}")
    assert library.environment()["LD_PRELOAD"] == f"{LIBRARY}:{LIBRARY}:libother.so"


def test_a_path_that_cannot_be_preloaded_is_refused(tmp_path, monkeypatch):
    named = tmp_path / "a library.so"
    named.touch()
    monkeypatch.setenv("NEAR_LIBRARY", str(named))
    with pytest.raises(Refused, match="cannot preload a path with a blank or colon"):
        library.environment()
