"""What is answered before anything is installed, built or measured: help, `list`, wrong requests.

Invariant: it needs only Python itself and changes nothing. `./near lab` asks it first, with any
Python there is; the commands ask it again.
"""

import argparse
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from nearlab import commands, places
from nearlab.demo import names
from nearlab.plan import chosen, listing, workloads
from nearlab.results import journal

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
    wrong = None if "--help" in words else _wrong(words[0], words[1:])
    return _refuse(wrong) if wrong else None


def _refuse(message: str) -> int:
    print(f"{commands.program()}: {message}", file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


# The options of commands by the number of words that each takes, and the kind of their arguments.
_RUN = {"--rounds": 1, "--allocators": 1, "--only": 1, "--pin": 1, "--scale": 1}
_RUN |= {"--resume": 0, "--count": 0, "--instructions": 0}
_PAGE = {"--output": 1, "-o": 1, "--subject": 1}
_COMPARE = {"--allocators": 1, "--reference": 1, "--all": 0, "--json": 1, "--fail-on-regression": 0}
_COMPARE |= {f"--threshold-{way}": 1 for way in ("time", "memory", "instructions", "calls")}
_KNOWN: dict[str, tuple[dict[str, int], int | str]] = {
    "run": (_RUN, "+"),
    "compare-allocators": ({"--rounds": 1, "--allocators": 1}, argparse.REMAINDER),
    "report": (_PAGE | {"--figure": 1}, "?"),
    "sweep-summary": (_PAGE | {"--all": 0, "--json": 1}, "?"),
    "compare": (_COMPARE, 2),
    "demo": ({"--rounds": 1, "--only": 1, "--long": 0}, "*"),
}


def _wrong(command: str, words: Sequence[str]) -> str | None:
    """What is wrong with a request, if that can be known now."""
    if command not in _KNOWN:
        return None
    try:
        asked = _asked(command, words)
        named = [asked.what] if isinstance(asked.what, str) else asked.what or []
        if command == "demo":
            names.chosen([asked.only or ""], asked.long)
            return f"demo takes no argument, but options: {named[0]}" if named else None
        if "allocators" not in asked or command == "compare":
            for name in named or ["sweep" if command == "sweep-summary" else ""]:
                journal.find(name)
            return None
    except (ValueError, journal.JournalError) as error:
        return str(error)
    plans = named if command == "run" else []
    problem = None if plans else no_command(named)
    return problem or refusal(plans, chosen.split(asked.allocators or ""), places.plan_results())


def _asked(command: str, words: Sequence[str]) -> argparse.Namespace:
    options, arguments = _KNOWN[command]
    parser = _Parser(prog=command, add_help=False, allow_abbrev=False)
    kinds: dict[str, Callable[[str], object]] = {
        "--rounds": _rounds,
        "--scale": _scale,
        "--pin": _pin,
    }
    for option, values in options.items():
        if values:
            parser.add_argument(option, type=kinds.get(option, str))
        else:
            parser.add_argument(option, action="store_true")
    parser.add_argument("what", nargs=arguments)
    if arguments == argparse.REMAINDER:
        return parser.parse_args(words)
    return parser.parse_intermixed_args(words)


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of rounds")
    return int(text)


def _scale(text: str) -> float:
    if not 0.001 <= float(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.001 and 1")
    return float(text)


def _pin(text: str) -> str:
    if text not in ("spread", "compact"):
        raise argparse.ArgumentTypeError(f"{text} is neither spread nor compact")
    return text


def no_command(command: Sequence[str]) -> str | None:
    """Why a command of the user's cannot be run."""
    words = [word for at, word in enumerate(command) if at or word != "--"]
    if not words:
        return "the command that is to be compared is missing"
    return None if shutil.which(words[0]) else f"there is no command {words[0]}"


def refusal(what: Sequence[str], allocators: Sequence[str], results: Path) -> str | None:
    """Why a run of these cannot start; None if nothing is known against it."""
    problem = chosen.problem(allocators) or chosen.missing_library(allocators)
    if problem:
        return f"--allocators: {problem}"
    plans = [path.stem for path in places.plan_files()]
    for name in what:
        if len(what) == 1 and (name in plans or Path(name).is_file()):
            if name not in plans and (problem := _no_toml(Path(name))):
                return problem
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


def _no_toml(path: Path) -> str | None:
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # an error of TOML or of UTF-8 is a ValueError
        return f"{path}: not TOML: {error}"
    return None


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
