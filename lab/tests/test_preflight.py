"""What is answered before anything is installed or built: help, the list, wrong requests."""

import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import typer

from nearlab import places, preflight
from nearlab.commands import application
from nearlab.results import journal

COPIED = ("near", "lab", "designs/list.txt")


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The files of a fresh clone that the lab's first answers need; nothing is built there."""
    folder = tmp_path_factory.mktemp("clone")
    for name in COPIED:
        source, target = places.ROOT / name, folder / name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    return folder


def asked(clone: Path, *words: str, status: int, seconds: float = 2.0) -> str:
    """Processor seconds count: other tests may have the processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NEAR", "PYTHON"))}
    done = subprocess.run(
        [clone / "near", "lab", *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == status, done.stdout + done.stderr
    took = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    assert took < seconds
    assert not (clone / "build").exists(), "nothing is installed or built for an answer"
    return done.stdout + done.stderr


def test_help_and_the_list_come_at_once_on_a_fresh_clone(clone):
    assert "usage: ./near lab COMMAND" in asked(clone, "--help", status=0)
    listed = asked(clone, "list", status=0)
    for word in ("quick", "threadtest", "allocates OBJECTS of SIZE", "program:redis", "mimalloc3"):
        assert word in listed


def test_a_list_that_nobody_reads_to_its_end_is_no_error(clone):
    listed = subprocess.run(
        f"{clone}/near lab list | head -n 1", shell=True, capture_output=True, text=True, check=True
    )
    assert listed.stdout == "Plans\n" and listed.stderr == ""


@pytest.mark.parametrize(
    "words,complaint",
    [
        (["run", "quick", "--allocators", "mine=/none.so"], "there is no file /none.so"),
        (["run", "quick", "--allocators=glibc,bumpmalloc"], "unknown 'bumpmalloc'"),
        (["run", "nonsense"], "'nonsense' is no plan"),
        (["run", "gone.toml"], "there is no plan gone.toml"),
        (["run", "quick", "larson"], "quick is a plan, and is run alone, without larson"),
        (["fly"], "unknown command 'fly'"),
        (["run", "quick", "--pin", "tight"], "--pin: tight is neither spread nor compact"),
        (["run", "quick", "--rounds", "0"], "--rounds: 0 is no number of rounds"),
        (["run", "quick", "--wrong"], "unrecognized arguments: --wrong"),
        (["run"], "the following arguments are required: what"),
        (["run", "README"], "README: not TOML: "),
        (["report", "quick~9"], "quick~9: neither a file nor a plan"),
        (["sweep-summary"], "sweep: neither a file nor a plan"),
        (["compare", "a", "b"], "a: neither a file nor a plan"),
        (["compare-allocators", "--", "no-such-command", "-l"], "no command no-such-command"),
        (["compare-allocators", "--allocators", "mine=/none.so", "ls"], "no file /none.so"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_installed(clone, words, complaint):
    words = [str(Path(__file__)) if word == "README" else word for word in words]
    complaint = complaint.replace("README", str(Path(__file__)))
    said = asked(clone, *words, status=2).strip()
    assert complaint in said and said.startswith("./near lab: ") and "\n" not in said


def test_what_is_not_wrong_goes_on(tmp_path):
    (tmp_path / "a.jsonl").touch()
    for words in (
        *("run quick", "run threadtest --count larson", "list --help", "run --help"),
        *("compare-allocators -- ls -l", "compare-allocators --rounds 3 ls --all", "tables x"),
        *(f"{name} {tmp_path}/a.jsonl" for name in ("report --figure a", "sweep-summary -o x")),
        f"compare {tmp_path}/a.jsonl --threshold-time 3 {tmp_path}/a.jsonl",
    ):
        assert preflight.answer(words.split()) is None, words


@pytest.mark.parametrize("command", preflight._KNOWN)
def test_the_options_that_are_checked_first_are_those_of_the_command(command):
    click = typer.main.get_command(application([command]))
    words = {word for one in click.commands[command].params for word in one.opts}
    assert {word for word in words if word.startswith("-")} == set(preflight._KNOWN[command][0])


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    assert "Not a directory" in preflight.refusal(["quick"], [], file / "results")
    assert preflight.refusal(["quick"], [], tmp_path / "not" / "yet") is None
    nothing = shutil._ntuple_diskusage(1 << 30, 1 << 30, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: nothing)
    assert "only 0 MiB are free" in preflight.refusal(["quick"], [], tmp_path)


@pytest.fixture
def nobody():
    """Without root's rights for a while."""
    if os.getuid() == 0:
        os.seteuid(65534)
    yield
    os.seteuid(os.getuid())


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_of_another_user_is_refused(nobody, mode):
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    assert preflight.refusal([], [], folder / "results") is None
    folder.chmod(mode)
    said = preflight.refusal([], [], folder / "results" / "of")
    folder.rmdir()
    assert said == f"cannot write results to {folder}/results/of: Permission denied"


def test_a_limit_on_files_is_an_error_of_one_line(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with journal.Journal.create(tmp_path / "quick") as lines:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(journal.JournalError, match="cannot be written: File too large"):
                lines.write({"kind": "plan", "text": "x" * 2000})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_is_an_error_of_one_line(tmp_path):
    folder = tmp_path / "file"
    folder.touch()
    with pytest.raises(journal.JournalError, match="cannot write results to .*file/quick"):
        journal.Journal.create(folder / "quick")
    with (
        journal.Journal(Path("/dev/full"), "r+b") as full,
        pytest.raises(journal.JournalError, match="/dev/full: cannot be written: No space left"),
    ):
        full.write({"kind": "plan"})
