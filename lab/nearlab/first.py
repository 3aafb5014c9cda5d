"""What is answered before anything is installed, built or measured: help, `list`, wrong requests.

Invariant: it needs only Python itself and changes nothing. `./near lab` asks it first, with any
Python there is; the commands ask it again.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from nearlab import __main__ as commands
from nearlab import places
from nearlab.plan import chosen, listing, workloads

GO_ON = 77  # the exit status that means: nothing to answer, nothing wrong
_LEAST_FREE_MIB = 64  # a large result, with room for its timelines


def answer(words: Sequence[str]) -> int | None:
    """The exit status of a request that needs nothing, or is wrong; None for all others."""
    if not words or words[0] in ("--help", "-h", "help"):
        print(commands.usage(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] not in commands.COMMANDS:
        return _refuse(f"unknown command {words[0]!r}; there are: {', '.join(commands.COMMANDS)}")
    if words[0] == "list" and len(words) == 1:
        try:
            listing.list_all()
            sys.stdout.flush()
        except BrokenPipeError:  # `list | head`: nobody reads what is left
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if words[0] == "run" and (wrong := _wrong_run(words)):
        return _refuse(wrong)
    return None


def _refuse(message: str) -> int:
    print(f"{commands.program()}: {message}", file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _wrong_run(words: Sequence[str]) -> str | None:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--allocators", default="")
    for option in ("--rounds", "--only", "--pin", "--scale"):
        parser.add_argument(option)
    try:
        asked, _ = parser.parse_known_args(words[1:])
    except ValueError:
        return None  # the command itself says what is wrong
    return refusal(asked.what, chosen.split(asked.allocators), places.plan_results())


def refusal(what: Sequence[str], allocators: Sequence[str], results: Path) -> str | None:
    """Why a run of these cannot start; None if nothing is known against it."""
    problem = chosen.problem(allocators) or chosen.missing_library(allocators)
    if problem:
        return f"--allocators: {problem}"
    plans = [path.stem for path in places.plan_files()]
    for name in what:
        if len(what) == 1 and (name in plans or Path(name).is_file()):
            continue
        if name in plans or Path(name).is_file():
            others = " ".join(word for word in what if word != name)
            return f"{name} is a plan, and is run alone, without {others}"
        if name.endswith(".toml"):
            return f"there is no plan {name}; there are: {', '.join(plans)}"
        if not workloads.is_known(name):
            return (
                f"{name!r} is no plan ({', '.join(plans)}), and no workload "
                f"({', '.join(workloads.known())})"
            )
    return _folder_problem(results)


def _folder_problem(folder: Path) -> str | None:
    """Why no result can be written to the folder, which need not exist yet."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free >> 20
    except OSError as error:
        return f"cannot write results to {folder}: {os.strerror(error.errno or 0)}"
    if free < _LEAST_FREE_MIB:
        return f"cannot write results to {folder}: only {free} MiB are free there"
    return None


if __name__ == "__main__":
    status = answer(sys.argv[1:])
    sys.exit(GO_ON if status is None else status)
