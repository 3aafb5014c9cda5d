"""The bootstrap `near`: it finds Python, makes the driver's environment once, starts the driver.

Each test has a copy of `near` with a small driver, and a PATH of its own.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neardriver import paths
from scripts import script

NEEDED = ("bash cat chmod cp flock mkdir readlink rm sed sh sleep tail touch").split()
# A Python whose environments have this Python and a pip that only notes its call.
FAKE = f"""
case "$*" in
  *"-m venv"*)
    for last; do :; done
    [ ! -e "$BROKEN" ] || {{ echo no space left; exit 1; }}
    echo made >> "$COUNTS"
    sleep 0.3
    rm -rf "$last"; mkdir -p "$last/bin" "$last/lib/python3.11/site-packages/pip"
    cp "$0" "$last/bin/python3" ;;
  *"-m pip install"*)
    [ ! -e "$OFFLINE" ] || exit 1
    echo "$*" >> "$COUNTS"
    mkdir -p "${{0%/bin/*}}/lib/python3.11/site-packages/typer" ;;
  *"-m pip"*) ;;
  *) exec {sys.executable} "$@" ;;
esac"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with `near` and a driver that prints its words. No Python is outside PATH."""
    folder = tmp_path / "a clone"
    (folder / "driver").mkdir(parents=True)
    text = (paths.ROOT / "near").read_text(encoding="utf-8")
    for path, instead in (("/usr/bin/python3", "/no/python3"),
                          ("/etc/ssl/certs/ca-certificates.crt", "/dev/null"),
                          ("policy=/usr/sbin", f"policy={tmp_path}")):
        assert path in text
        text = text.replace(path, instead)
    (folder / "near").write_text(text, encoding="utf-8")
    (folder / "near").chmod(0o755)
    (folder / "driver/requirements.txt").write_text("typer\n")
    (folder / "driver/__main__.py").write_text("import sys\nprint('driver', sys.argv[1:])\n")
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs that `near` needs, and with a fake Python."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in NEEDED:
        (folder / name).symlink_to(shutil.which(name))
    script(folder / "python3", FAKE)
    return folder


@pytest.fixture
def start(clone: Path, programs: Path, tmp_path: Path):
    """Starts `near` with these programs alone on its path."""

    def start(*words: str) -> "subprocess.Popen[str]":
        variables = {name: str(tmp_path / name.lower()) for name in ("COUNTS", "BROKEN", "OFFLINE")}
        return subprocess.Popen([clone / "near", *words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={"PATH": str(programs), "HOME": "/", **variables})

    return start


@pytest.fixture
def near(start):
    """Runs `near`; returns its status, stdout and stderr."""

    def near(*words: str) -> tuple[int, str, str]:
        process = start(*words)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return near


def made(tmp_path: Path) -> int:
    """How many environments were made."""
    counts = tmp_path / "counts"
    return counts.read_text().count("made") if counts.exists() else 0


def test_the_bootstrap_is_short():
    assert len((paths.ROOT / "near").read_text().splitlines()) <= 150


def test_the_first_command_makes_the_environment_and_the_next_only_uses_it(near, tmp_path):
    said = "near: preparing build/venv for the driver\n"
    assert near("run", "--", "a  b") == (0, "driver ['run', '--', 'a  b']\n", said)
    assert near() == (0, "driver []\n", "")
    assert made(tmp_path) == 1


def test_a_link_to_near_works_from_anywhere(near, clone, programs, tmp_path):
    near()
    link = tmp_path / "link"
    link.symlink_to(clone / "near")
    done = subprocess.run([link, "x"], cwd="/", env={"PATH": str(programs)}, capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "driver ['x']\n"), done.stderr


def test_other_requirements_are_added_and_what_is_there_stays(near, clone, tmp_path):
    near()
    (clone / "build/venv/group-lab").touch()
    (clone / "driver/requirements.txt").write_text("typer\nrich\n")
    assert near()[:2] == (0, "driver []\n")
    assert near() == (0, "driver []\n", "")
    assert (tmp_path / "counts").read_text().count("pip install") == 2
    assert made(tmp_path) == 1 and (clone / "build/venv/group-lab").exists()


def test_a_python_that_is_gone_makes_it_anew(near, clone, tmp_path):
    near()
    (clone / "build/venv/bin/python3").unlink()
    assert near()[0] == 0
    assert made(tmp_path) == 2


def test_a_python_of_another_minor_version_makes_it_anew(near, clone, programs, tmp_path):
    near()
    python = clone / "build/venv/bin/python3"
    python.rename(programs / "python3.99")
    python.symlink_to(programs / "python3.99")
    assert near()[0] == 0
    assert made(tmp_path) == 2


def test_two_at_once_make_one_environment(start, tmp_path):
    first = start("one")
    while made(tmp_path) == 0:
        time.sleep(0.01)
    second = start("two")
    for process, word in ((first, "one"), (second, "two")):
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, f"driver ['{word}']\n"), err
    assert err == f"near: waiting for `./near one` (process {first.pid})\n"
    assert made(tmp_path) == 1


def test_without_python_others_than_root_or_without_apt_are_told_the_packages(near, programs):
    (programs / "python3").unlink()
    complaint = "near: missing, by the names of their Debian packages: python3 python3-venv"
    status, out, err = near("--help")
    assert (status, out) == (2, "") and err.startswith(complaint) and err.count("\n") == 1


@pytest.mark.parametrize("old", ["sys.version_info < (3, 11)", "import ensurepip, venv"])
def test_a_python_that_is_too_old_or_lacks_venv_does_not_do(near, programs, old):
    script(programs / "python3", f'case "$*" in *"{old}"*) exit 1;; esac\n{FAKE}')
    status, _, err = near("--help")
    assert status == 2 and "python3-venv" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
def test_root_gets_python_installed_without_services(near, programs, tmp_path):
    (programs / "python3").rename(programs / "kept")
    script(programs / "apt-get", f'case "$*" in *" install "*) echo "$@" > {tmp_path}/asked; '
           f"cp {tmp_path}/policy-rc.d {tmp_path}/seen; cp {programs}/kept {programs}/python3;; "
           "esac")
    status, out, err = near("x")
    assert (status, out) == (0, "driver ['x']\n"), err
    assert err.startswith("near: installing python3 python3-venv\n")
    assert (tmp_path / "asked").read_text().endswith("python3 python3-venv\n")
    assert "exit 101" in (tmp_path / "seen").read_text()
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
def test_a_refusing_apt_is_an_error_of_one_line_after_its_log(near, programs):
    (programs / "python3").unlink()
    script(programs / "apt-get", "echo no route to host; exit 100")
    status, _, err = near("x")
    assert status == 2 and "no route to host" in err
    assert err.splitlines()[-1].startswith("near: apt-get could not install: python3 python3-venv")


def test_a_venv_that_cannot_be_made_is_an_error_of_one_line(near, tmp_path):
    (tmp_path / "broken").touch()
    status, _, err = near("x")
    assert status == 1
    assert "near: cannot make build/venv: no space left (see build/logs/venv.log)" in err


def test_a_pip_that_fails_is_tried_three_times(near, clone, tmp_path):
    (tmp_path / "offline").touch()
    status, _, err = near("x")
    assert status == 1 and err.count("pip failed") == 3 and "is the index reachable?" in err
    (tmp_path / "offline").unlink()
    assert near("x")[:2] == (0, "driver ['x']\n"), "the next command tries again"


def test_a_build_folder_that_cannot_be_written_is_a_misuse(near, clone):
    (clone / "build").touch()
    status, _, err = near("x")
    assert (status, err) == (2, f"near: cannot write to {clone}/build\n")


def test_the_lab_answers_before_anything_is_made(near, clone, programs):
    preflight = clone / "lab/nearlab/preflight.py"
    preflight.parent.mkdir(parents=True)
    preflight.write_text("import sys\nprint('lab', sys.argv[1:])\n"
                         "sys.exit({'list': 0, 'wrong': 2}.get(sys.argv[1], 77))\n")
    assert near("lab", "list") == (0, "lab ['list']\n", "")
    assert near("lab", "wrong")[0] == 2
    assert not (clone / "build").exists()
    assert near("lab", "run")[:2] == (0, "lab ['run']\ndriver ['lab', 'run']\n")
